#!/bin/bash
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Configures the node that it runs on, from one bundle: ParallelCluster OnNodeConfigured, AWS PCS lifecycle action, EC2
# user data, or by hand. docs/boot_hook.md has every option, the exit codes, and what lies where.
#   on_node_configured.sh --bundle s3://BUCKET/KEY --sha256 HEX [--vars s3://…|JSON|FILE] [--roles a,b:best-effort]
#   on_node_configured.sh --pointer s3://BUCKET/KEY --public-key PEM-FILE|BASE64 [--version-floor N] …

set -uo pipefail
umask 022
words=("$@") root='' bundle='' sha='' pointer='' key='' floor='' vars='' deadline='' on_failure=drain prefix='' work=''

uptime_now() { local up; read -r up _ </proc/uptime; echo "${up%%.*}"; }
left() { local seconds=$((deadline_at - $(uptime_now))); echo "$((seconds > 1 ? seconds : 1))"; }
say() {
    local line; line="$(date -u +%FT%TZ) on_node_configured: $*"
    echo "$line"
    { echo "$line" >>"$logs/on_node_configured.log"; } 2>/dev/null
    [ ! -d "$root/var/log/parallelcluster" ] || { echo "$line" >>"$root/var/log/parallelcluster/mlcluster.log"; } 2>/dev/null
}
put() { { mkdir -p "${1%/*}" && (umask 077 && echo "$2" >"$1.$$") && mv -f "$1.$$" "$1"; } 2>/dev/null; }
fail() { # CODE SENTENCE: the end of a run that the bundle's own runner could not report
    local now text marker=$root/var/lib/mlcluster/drain.json outcome=failed
    now=$(date -u +%FT%TZ) text=$(tr -s '[:cntrl:]"\\' " ' " <<<"$2") text=${text% }
    [ -z "$work" ] || rm -rf "$work" # first, for it may be what has filled the disk
    say "ERROR: $text"
    if [ "$on_failure" = drain ]; then
        outcome=drained
        [ -e "$marker" ] ||
            put "$marker" "{\"schema\": \"mlcluster.drain/1\", \"reason\": \"$text\", \"by\": \"mlcluster boot hook\", \"at\": \"$now\"}" ||
            say "cannot write $marker: keep jobs away from this node by hand"
    fi
    put "$logs/status.json" "{\"schema\": \"mlcluster.node/1\", \"state\": \"$outcome\", \"stage\": \"$stage\", \"message\": \"$text\", \"exit_code\": $1, \"updated\": \"$now\"}"
    [ -z "$prefix" ] || ! command -v aws >/dev/null || timeout 60 aws s3 cp --quiet "$logs/on_node_configured.log" "${prefix%/}/$(uname -n)/on_node_configured.log"
    if [ "$on_failure" = terminate ] || { [ "$1" = 3 ] && [ -t 0 ]; }; then exit "$1"; fi
    exit 0
}

stage=arguments problem=''
while [ $# -gt 0 ]; do
    case $1 in
    --required | --best-effort) shift; continue ;;
    --help) sed -n '6,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --bundle | --sha256 | --pointer | --public-key | --version-floor | --vars | --roles | --deadline | --on-failure | \
        --log-prefix | --phase | --node-type | --wait-for | --wait-seconds | --root)
        [ $# -ge 2 ] || { problem="$1 needs a value"; break; } ;;
    *) problem="there is no option '$1' (docs/boot_hook.md lists them)"; break ;;
    esac
    case $1 in
    --bundle) bundle=$2 ;; --sha256) sha=$2 ;; --pointer) pointer=$2 ;; --public-key) key=$2 ;; --version-floor) floor=$2 ;;
    --vars) vars=$2 ;; --deadline) deadline=$2 ;; --on-failure) on_failure=$2 ;; --log-prefix) prefix=$2 ;; --root) root=${2%/} ;;
    esac
    shift 2
done
logs=$root/var/log/mlcluster home=$root/opt/mlcluster/bundles
mkdir -p "$logs" "$home" "$root/run/mlcluster" "$root/var/lib/mlcluster" 2>/dev/null
[ -z "$problem" ] || fail 3 "$problem"
case $on_failure in continue | drain | terminate) ;; *) on_failure=drain; fail 3 "--on-failure takes continue, drain or terminate" ;; esac
case $deadline in *[!0-9]*) fail 3 "--deadline takes whole seconds, not '$deadline'" ;; esac
if [ -n "$pointer" ]; then
    [ -z "$bundle$sha" ] && [ -n "$key" ] || fail 3 "--pointer needs --public-key, and neither --bundle nor --sha256"
else
    [ -n "$bundle" ] && [[ $sha =~ ^[0-9a-f]{64}$ ]] || fail 3 "give --bundle with its --sha256 (64 digits, small letters), or --pointer with --public-key"
fi
[ -n "$root" ] || [ "$(id -u)" = 0 ] || fail 3 "configuring a node needs root: run it with sudo"

# The limit of the bootstrap counts from the launch, so what the boot has used so far is gone.
# 2100 s: ParallelCluster 3.16, HeadNode- and ComputeNodeBootstrapTimeout. 1800 s: AWS PCS, the time to join Slurm.
started=$(uptime_now) limit=1800 used=$started
[ ! -d "$root/opt/parallelcluster" ] || limit=2100
changed=$(sed -nE 's/^ *(Compute|Head)NodeBootstrapTimeout: *([0-9]+).*/\2/p' "$root/opt/parallelcluster/shared/cluster-config.yaml" 2>/dev/null | sort -n | head -n 1)
limit=${changed:-$limit}
[ "$used" -lt $((limit - 240)) ] || used=0
deadline_at=$((started + ${deadline:-$((limit - used - 120))}))

stage=lock
exec 9>"$root/run/mlcluster/hook.lock" || fail 2 "cannot open $root/run/mlcluster/hook.lock: is the disk full or read-only?"
flock -w "$(left)" 9 || fail 2 "another run has held $root/run/mlcluster/hook.lock until the deadline: see its log $logs/on_node_configured.log"
rm -rf "$home"/.work.* # of a run that was killed: nobody else can be in there
work=$(mktemp -d "$home/.work.XXXXXX") || fail 2 "cannot make a directory below $home: is the disk full or read-only?"
trap 'rm -rf "$work"' EXIT
stop() {
    [ -z "${child:-}" ] || { kill "$child"; wait "$child"; } 2>/dev/null
    [ "$stage" != run ] || [ -e "$work/options" ] || exit 2 # the bundle's runner has reported
    fail 2 "the run was told to stop in stage $stage"
}
trap stop TERM INT HUP

imds() { curl -sf --noproxy '*' --max-time 2 "$@" 2>/dev/null; }
if [ -z "${AWS_REGION:-}${AWS_DEFAULT_REGION:-}" ]; then
    AWS_DEFAULT_REGION=$(sed -n 's/^cfn_region=//p' "$root/etc/parallelcluster/cfnconfig" 2>/dev/null | tr -d "\"'")
    if [ -z "$AWS_DEFAULT_REGION" ] && [ "${AWS_EC2_METADATA_DISABLED:-false}" != true ]; then
        metadata=${AWS_EC2_METADATA_SERVICE_ENDPOINT:-http://169.254.169.254}
        token=$(imds -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 300' "${metadata%/}/latest/api/token")
        AWS_DEFAULT_REGION=$(imds -H "X-aws-ec2-metadata-token: $token" "${metadata%/}/latest/meta-data/placement/region")
    fi
    export AWS_DEFAULT_REGION=${AWS_DEFAULT_REGION:-us-east-1}
fi

pythons() { # every Python that may be here, the exact version first
    printf '%s\n' "python3.$1" python3 python3.1{0..9} "$root"/opt/parallelcluster/pyenv/versions/*/{,envs/*/}bin/python3
}
find_python() { # LOWEST-MINOR [CODE that it must be able to run]
    local candidate
    while read -r candidate; do
        "$candidate" -I -c "import sys; sys.version_info[:2] >= (3, $1) or sys.exit(1); ${2:-}" >/dev/null 2>&1 && command -v "$candidate" && return
    done < <(pythons "$1")
    return 1
}
SDK='import shutil, sys, boto3, botocore.config as c
s3 = boto3.client("s3", config=c.Config(connect_timeout=10, read_timeout=20, retries={"total_max_attempts": 1}))
shutil.copyfileobj(s3.get_object(Bucket=sys.argv[1], Key=sys.argv[2])["Body"], open(sys.argv[3], "wb"))'
fetch_once() {
    local bucket=${1#s3://} python
    case $1 in
    s3://*)
        if command -v aws >/dev/null; then
            AWS_MAX_ATTEMPTS=1 timeout "$(left)" aws s3api get-object --cli-connect-timeout 10 --cli-read-timeout 20 --bucket "${bucket%%/*}" --key "${bucket#*/}" "$2"
        elif python=$(find_python 6 'import boto3'); then
            timeout "$(left)" "$python" -I -c "$SDK" "${bucket%%/*}" "${bucket#*/}" "$2"
        else
            echo "NoTool: neither the AWS CLI nor a Python with boto3 is on this node; install one, or give a presigned https address"; return 1
        fi ;;
    https://* | http://*) curl -fsSL --connect-timeout 10 --speed-limit 1024 --speed-time 20 --max-time "$(left)" -o "$2" "$1" ;;
    *) cp -- "$1" "$2" ;;
    esac
}
fetch() { # SOURCE TARGET: whole or not at all; what is not in vain is tried again, after a pause that grows and varies
    local attempt pause=1000 why status
    for attempt in 1 2 3 4 5 6 7 8; do
        why=$(fetch_once "$1" "$work/part" 2>&1) && mv "$work/part" "$2" && return
        status=$? why=$(tr -s '[:space:]' ' ' <<<"$why" | tail -c 400)
        rm -f "$work/part"
        [ "$status" != 124 ] && [ "$(left)" -gt 1 ] || { why="no answer until the deadline. $why"; break; }
        case $1 in s3://* | http*) ;; *) break ;; esac
        case $why in *NoTool* | *NoSuchKey* | *NoSuchBucket* | *"error: 404"* | *"No space left"* | *"curl: (23)"*) break ;; esac
        say "try $attempt for ${1%%\?*} failed: $why"
        sleep "$((RANDOM % pause / 1000)).$((RANDOM % 900 + 100))"
        pause=$((pause < 16000 ? pause * 2 : 16000))
    done
    case $why in *RequestTimeTooSkewed*) why="the clock of this node is wrong ($(date -u +%FT%TZ)): see that chrony runs. $why" ;; esac
    fail 2 "could not get ${1%%\?*}: ${why% }"
}

# Prints address and sha256 of this node's bundle, the python to run it, and the floor: what neither an older pointer than
# the floor that was given, nor one older than what this node has seen, can lower. Complaints go to standard error.
FOLLOW='import json, sys
told, floor, family, minors = json.load(open(sys.argv[1])), sys.argv[2], sys.argv[3], sys.argv[4].split()
numbers = lambda text: tuple(int(part) for part in text.split("."))
floor = max([floor or "0", told.get("floor") or "0"], key=numbers)
if numbers(told["version"]) < numbers(floor):
    sys.exit("it names version %s, and the floor is %s: this release is not to be run any more" % (told["version"], floor))
found = [told["bundles"][name] for name in ("%s-py3.%s" % (family, minor) for minor in minors) if name in told["bundles"]]
if not found:
    sys.exit("it has no bundle for %s with Python 3.%s, only for %s" % (family, ", 3.".join(minors) or "?", ", ".join(told["bundles"])))
print(found[0]["url"], found[0]["sha256"], floor)'
follow_pointer() {
    local family=debian minors python said seen=$root/var/lib/mlcluster/version_floor
    fetch "$pointer" "$work/pointer" && fetch "$pointer.sig" "$work/pointer.sig"
    [ -f "$key" ] && cp "$key" "$work/key" || printf -- '-----BEGIN PUBLIC KEY-----\n%s\n-----END PUBLIC KEY-----\n' "$key" >"$work/key"
    said=$(openssl dgst -sha256 -verify "$work/key" -signature "$work/pointer.sig" "$work/pointer" 2>&1) ||
        fail 2 "the signature of $pointer is not that of the key given: ${said:-openssl is missing}; nothing of it was used"
    case "$(sed -n 's/^ID\(_LIKE\)\{0,1\}=//p' "$root/etc/os-release" /etc/os-release 2>/dev/null)" in *amzn*) family=amazon ;; *rhel* | *fedora*) family=redhat ;; esac
    minors=$(pythons 9 | while read -r python; do "$python" -I -c 'import sys; print(sys.version_info[1])' 2>/dev/null; done)
    python=$(find_python 6) || fail 2 "this node has no Python at all: install python3"
    [ -n "$floor" ] || floor=$(cat "$seen" 2>/dev/null)
    said=$("$python" -I -c "$FOLLOW" "$work/pointer" "$floor" "$family" "$(tr '\n' ' ' <<<"$minors")" 2>&1) || fail 2 "the pointer $pointer cannot be followed: $said"
    read -r bundle sha floor <<<"$said"
    put "$seen" "$floor"
}

stage=bundle
put "$logs/status.json" "{\"schema\": \"mlcluster.node/1\", \"state\": \"fetching\", \"stage\": \"bundle\", \"updated\": \"$(date -u +%FT%TZ)\"}"
[ -z "$pointer" ] || follow_pointer
tree=$home/$sha
if [ ! -d "$tree" ]; then
    fetch "$bundle" "$work/bundle.tar.gz"
    got=$(sha256sum "$work/bundle.tar.gz") got=${got%% *}
    [ "$got" = "$sha" ] || fail 2 "the bundle ${bundle%%\?*} has sha256 $got and not $sha: it was cut short or replaced, and nothing of it was unpacked"
    mkdir -m 0755 "$work/tree" && tar -xzf "$work/bundle.tar.gz" --no-same-owner -C "$work/tree" 2>"$work/said" ||
        fail 2 "could not unpack the bundle into $home: $(head -c 300 "$work/said")"
    [ -f "$work/tree/mlcluster-bundle/bin/run-node" ] || fail 2 "what ${bundle%%\?*} holds is no bundle: it has no mlcluster-bundle/bin/run-node"
    mv -T "$work/tree" "$tree" && rm -f "$work/bundle.tar.gz" || fail 2 "could not move the bundle to $tree"
fi
touch "$tree" # the newest ones are kept

stage=python
minor=$(sed -nE 's/.*"python": *"3\.([0-9]+)".*/\1/p' "$tree/mlcluster-bundle/MANIFEST.json" | head -n 1)
python=$(find_python "${minor:=10}") ||
    fail 2 "this node has no Python 3.$minor or newer, neither on the PATH nor ParallelCluster's own: install python3.$minor, or give the bundle that is made for this node's Python"

stage=variables
case $vars in
'') : >"$work/vars" ;;
'{'*) echo "$vars" >"$work/vars" ;;
*) fetch "$vars" "$work/vars" ;;
esac
(umask 077 && printf '%s\0' "${words[@]}" --root "${root:-/}" --vars-file "$work/vars" --bundle-sha256 "$sha" --started-at "$started" --deadline-at "$deadline_at" >"$work/options") ||
    fail 2 "could not write $work/options: is the disk full?"

stage=run
timeout --kill-after=20 "$(($(left) + 30))" "$python" -I "$tree/mlcluster-bundle/bin/run-node" --options-file "$work/options" &
child=$!
wait "$child"
status=$? child=''
[ ! -e "$work/options" ] || fail 2 "the bundle's runner ended with status $status before it could report: see what it printed above"
exit "$status"
