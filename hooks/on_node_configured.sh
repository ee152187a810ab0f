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

FOLLOW='import glob, json, os, re, shutil, sys
path, family, root, pinned, kept = sys.argv[1:]
def number(text):
    return [int(part) for part in re.match(r"(\d+)\.(\d+)\.(\d+)$", text).groups()]
def here(minor):
    name = "3.%d" % minor
    return shutil.which("python" + name) or glob.glob(root + "/opt/parallelcluster/pyenv/versions/" + name + ".*") or sys.version_info[1] == minor
try:
    told = json.load(open(path))
    if told["schema"] != "mlcluster.pointer/1":
        raise ValueError("its schema is " + told["schema"])
    stored = open(kept).read().strip() if os.path.exists(kept) else ""
    lowest = max(filter(None, (pinned, stored, told.get("floor"), "0.0.0")), key=number)
    version, below = told["version"], number(told["version"]) < number(lowest)
    minors = sorted((int(name.split("py3.")[1]) for name in told["bundles"] if name.startswith(family + "-py3.")), reverse=True)
    chosen = [told["bundles"]["%s-py3.%d" % (family, minor)] for minor in filter(here, minors)]
    known = re.match("[0-9a-f]{64}$", chosen[0]["sha256"]) and len(chosen[0]["url"].split()) == 1 if chosen else True
except Exception as problem:
    sys.exit("it is not what this hook understands (%s: %s): publish it again, or upload the newer hook" % (type(problem).__name__, problem))
if below:
    sys.exit("it names version %s and nothing below %s may run here: publish a newer version, or lower the floor by hand" % (version, lowest))
if not chosen or not known:
    sys.exit("it names no good bundle for %s with a Python that is here (it has %s): build one, or install such a Python" % (family, ", ".join(sorted(told["bundles"]))))
if told.get("floor") and (not stored or number(told["floor"]) > number(stored)):
    with open(kept + ".new", "w") as handle:
        handle.write(told["floor"] + "\n")
    os.replace(kept + ".new", kept)
print(chosen[0]["url"], chosen[0]["sha256"], version)'
follow_pointer() { # the bundle that the signed pointer names for this node; moving it changes two objects, so look again
    local python='' family=redhat attempt said version
    command -v openssl >/dev/null || fail 2 "openssl is not on this node, so the pointer cannot be proved: install openssl, or give --bundle with --sha256"
    python=$(find_python 6) || fail 2 "no python3 is on this node, so the pointer cannot be read: install one"
    case " $(sed -nE 's/^ID(_LIKE)?=//p' "$root/etc/os-release" 2>/dev/null | tr "\"'\n" '   ') " in *' debian '* | *' ubuntu '*) family=debian ;; *' amzn '*) family=amazon ;; esac
    case $key in
    */*.pem | /*) cp -- "$key" "$work/key.pem" 2>"$work/said" || fail 2 "the public key cannot be read: $(cat "$work/said")" ;;
    *) printf '%s\n' '-----BEGIN PUBLIC KEY-----' "$(fold -w 64 <<<"$key")" '-----END PUBLIC KEY-----' >"$work/key.pem" ;;
    esac
    for attempt in 1 2 3; do
        fetch "$pointer" "$work/pointer" && fetch "$pointer.sig" "$work/pointer.sig"
        said=$(openssl dgst -sha256 -verify "$work/key.pem" -signature "$work/pointer.sig" "$work/pointer" 2>&1) && break
        [ "$attempt" -lt 3 ] || fail 2 "the pointer ${pointer%%\?*} is not signed by the key of --public-key, and nothing was fetched: $(tr -s '[:space:]' ' ' <<<"$said" | head -c 200)"
        sleep 2
    done
    said=$("$python" -I -c "$FOLLOW" "$work/pointer" "$family" "$root" "$floor" "$root/var/lib/mlcluster/version_floor" 2>&1) || fail 2 "the pointer ${pointer%%\?*} was refused: $said"
    read -r bundle sha version <<<"$said"
    say "the pointer names version $version: ${bundle%%\?*}"
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
