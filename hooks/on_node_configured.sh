#!/usr/bin/env bash
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Configures the node that it runs on, from one bundle: ParallelCluster OnNodeConfigured, AWS PCS lifecycle action, EC2
# user data, or by hand. docs/boot_hook.md has the options, the exit codes, and what lies where.
#   on_node_configured.sh --bundle s3://…|https://…|FILE --sha256 HEX [--vars s3://…|https://…|FILE|JSON] [OPTIONS]
#   on_node_configured.sh --pointer s3://…|https://…|FILE --public-key FILE|BASE64 [--version-floor N.N.N] …

set -uo pipefail
umask 022
declare -A opt
words=("$@") work='' child='' stage=arguments problem='' policy=drain

now() { date -u +%FT%TZ; }
uptime_now() { local up _; read -r up _ </proc/uptime; echo "${up%%.*}"; } # no correction of the clock changes it
left() { local seconds=$((deadline_at - $(uptime_now))); echo $((seconds > 1 ? seconds : 1)); }
say() {
    local line file
    line="$(now) on_node_configured: $*"
    echo "$line"
    for file in "$logs/on_node_configured.log" "$root/var/log/parallelcluster/mlcluster.log"; do [ ! -d "${file%/*}" ] || echo "$line" >>"$file"; done 2>/dev/null
}
put() { { mkdir -p "${1%/*}" && (umask 077 && echo "$2" >"$1.$$") && mv -f "$1.$$" "$1"; } 2>/dev/null; }
fail() { # CODE SENTENCE: the end of a run that the bundle's own runner could not report
    local text state=failed marker=$root/var/lib/mlcluster/drain.json
    text=$(tr '\n\t"\134' "  '/" <<<"$2" | tr -d '\000-\037\177-\377') text=${text% } # half a character is no JSON
    [ -z "$work" ] || rm -rf "$work" # first, for it may be what has filled the disk
    say "ERROR: $text"
    if [ "$policy" = drain ]; then
        state=drained
        case $(cat "$marker" 2>/dev/null) in # a person's own stays
        '' | *'"mlcluster boot hook"'*) put "$marker" "{\"schema\": \"mlcluster.drain/1\", \"reason\": \"$text\", \"by\": \"mlcluster boot hook\", \"at\": \"$(now)\"}" ;;
        esac || say "cannot write $marker: keep jobs away from this node by hand"
    fi
    put "$logs/status.json" "{\"schema\": \"mlcluster.node/1\", \"state\": \"$state\", \"stage\": \"$stage\", \"message\": \"$text\", \"exit_code\": $1, \"updated\": \"$(now)\"}"
    [ -z "${opt[log-prefix]:-}" ] || (s3 put "$logs/on_node_configured.log" "${opt[log-prefix]%/}/$(uname -n)/on_node_configured.log" 60) >/dev/null ||
        say "the log could not be copied to ${opt[log-prefix]}"
    [ "$policy" != terminate ] || exit "$1"
    exit 0
}
find_python() { # LOWEST-MINOR [CODE that it must be able to run]: the exact version first, ParallelCluster's own last
    local candidate
    for candidate in "python3.$1" "${pythons[@]}"; do
        "$candidate" -I -c "import sys; sys.version_info[:2] >= (3, $1) or sys.exit(1); ${2:-}" >/dev/null 2>&1 && command -v "$candidate" && return
    done
    return 1
}
SDK='import shutil, sys, boto3, botocore.config as c
verb, path, bucket, key, owner = sys.argv[1:]
s3, more = boto3.client("s3", config=c.Config(connect_timeout=10, read_timeout=20)), {"ExpectedBucketOwner": owner} if owner else {}
s3.upload_file(path, bucket, key, more) if verb == "put" else shutil.copyfileobj(s3.get_object(Bucket=bucket, Key=key, **more)["Body"], open(path, "wb"))'
s3() { # get|put FILE ADDRESS SECONDS, in a subshell, which it becomes
    local bucket=${3#s3://} python file=(--body "$2")
    if [ "$1" = get ]; then file=("$2") && export AWS_MAX_ATTEMPTS=1; fi # fetch tries again itself
    if command -v aws >/dev/null; then
        exec timeout "$4" aws s3api "$1-object" --cli-connect-timeout 10 --cli-read-timeout 20 --bucket "${bucket%%/*}" --key "${bucket#*/}" "${file[@]}" ${owner:+--expected-bucket-owner "$owner"}
    fi
    python=$(find_python 6 'import boto3') && exec timeout "$4" "$python" -I -c "$SDK" "$1" "$2" "${bucket%%/*}" "${bucket#*/}" "$owner"
    echo "NoTool: neither the AWS CLI nor a Python with boto3 is here: install one, or give a presigned https address"
    return 1
}
# shellcheck disable=SC2317 # a trap calls it
stop() {
    trap '' TERM INT HUP # a second one must not break into the report
    [ -z "$child" ] || { kill "$child"; wait "$child"; } 2>/dev/null
    local status=$?
    [ "$stage" != roles ] || [ -e "$work/options" ] || exit "$status" # the bundle's runner has reported
    fail 2 "the run was told to stop in stage $stage"
}

wrong() { problem=${problem:-$1}; }
known=' bundle sha256 pointer public-key version-floor vars roles deadline on-failure log-prefix bucket-owner phase node-type wait-for wait-seconds root '
while [ $# -gt 0 ] && [ -z "$problem" ]; do
    case $1 in --required | --best-effort) shift; continue ;; esac
    if [[ $1 != --?* || $known != *" ${1#--} "* ]]; then wrong "there is no option '$1': see docs/boot_hook.md"
    elif [ $# -lt 2 ]; then wrong "$1 needs a value"
    else opt[${1#--}]=$2 && shift 2; fi
done
root=${opt[root]:-} root=${root%/} logs=$root/var/log/mlcluster said=$root/run/mlcluster/said home=$root/opt/mlcluster/bundles
pythons=(python3 python3.1{0..9} "$root"/opt/parallelcluster/pyenv/versions/*/{,envs/*/}bin/python3)
region=$(sed -n "s/^cfn_region=//p" "$root/etc/parallelcluster/cfnconfig" 2>/dev/null | tr -d "\"'")
[ -n "${AWS_REGION:-}${AWS_DEFAULT_REGION:-}" ] || [ -z "$region" ] || export AWS_DEFAULT_REGION=$region
bundle=${opt[bundle]:-} sha=${opt[sha256]:-} pointer=${opt[pointer]:-} owner=${opt[bucket-owner]:-}
mkdir -p "$logs" "$home" "$root/run/mlcluster" "$root/var/lib/mlcluster" 2>/dev/null
if [[ ${opt[on-failure]:-drain} =~ ^(continue|drain|terminate)$ ]]; then policy=${opt[on-failure]:-drain}
else wrong "--on-failure takes continue, drain or terminate, not '${opt[on-failure]}'"; fi
[[ $owner =~ ^([0-9]{12})?$ ]] || wrong "--bucket-owner takes the 12 digits of an account, not '$owner'"
[[ ${opt[deadline]:-1} =~ ^[0-9]{1,6}$ ]] || wrong "--deadline takes whole seconds, not '${opt[deadline]}'"
if [ -n "$pointer" ]; then
    [ -z "$bundle$sha" ] || wrong "--pointer names the bundle: leave --bundle and --sha256 out"
    [[ $pointer != *\?* ]] || wrong "--pointer takes no presigned address: its signature lies beside it, under the same name with .sig"
    [ -n "${opt[public-key]:-}" ] || wrong "--pointer needs --public-key, the key that it has to be signed with"
else [[ -n $bundle && $sha =~ ^[0-9a-f]{64}$ ]] || wrong "give --bundle with its --sha256 (64 digits, small letters), or --pointer"
    [[ $sha =~ [^0] ]] || wrong "the --sha256 of zeros is a placeholder: give the one that make bundle has printed"; fi
[ -n "$root" ] || [ "$(id -u)" = 0 ] || wrong "configuring a node needs root: run it with sudo"
[ -z "$problem" ] || fail 3 "$problem"

# The limit of the bootstrap counts from the launch. 2100 s: Head- and ComputeNodeBootstrapTimeout of ParallelCluster 3.16;
# 1800 s: the time that AWS PCS gives a node to join Slurm. The last 120 s are for what comes after the hook.
started=$(uptime_now) limit=1800 used=$started
[ ! -d "$root/opt/parallelcluster" ] || limit=2100
given=$(sed -nE 's/^ *(Compute|Head)NodeBootstrapTimeout: *0*([1-9][0-9]{0,5})\b.*/\2/p' "$root/opt/parallelcluster/shared/cluster-config.yaml" 2>/dev/null | sort -n | head -n 1)
limit=${given:-$limit}
[ "$used" -lt $((limit - 240)) ] || used=0 # no bootstrap, but a later run
deadline_at=$((started + ${opt[deadline]:+10#}${opt[deadline]:-$((limit - used - 120))})) # 08 is no number in base eight

stage=lock
{ exec 9>"$root/run/mlcluster/hook.lock"; } 2>/dev/null || fail 2 "cannot write $root/run/mlcluster/hook.lock: is the disk full or read-only?"
flock -w "$(left)" 9 || fail 2 "another run has held $root/run/mlcluster/hook.lock until the deadline: see $logs"
rm -rf "$home"/.work.* # of a run that was killed: nobody else can be in there
work=$(mktemp -d "$home/.work.XXXXXX" 2>/dev/null) || fail 2 "cannot make a directory below $home: is the disk full or read-only?"
trap 'rm -rf "$work"' EXIT
trap stop TERM INT HUP
fetch_once() {
    case $1 in
    s3://*) s3 get "$2" "$1" "$(left)" ;;
    https://* | http://*) exec curl -fsSL --proto-redir =https --connect-timeout 10 --speed-limit 1024 --speed-time 20 --max-time "$(left)" -o "$2" "$1" ;;
    *) exec timeout "$(left)" cp -- "$1" "$2" ;; # of a mount that may hang
    esac
}
fetch() { # SOURCE TARGET: whole or not at all; what is not in vain is tried again, after a pause that grows and varies
    local attempt pause=1000 why='' before status
    for attempt in 1 2 3 4 5 6 7 8; do
        fetch_once "$1" "$work/part" >"$said" 2>&1 & # a trap waits for what is in the foreground
        child=$!
        wait "$child"
        status=$? child=''
        [ "$status" != 0 ] || { mv "$work/part" "$2" && return; }
        before=${why:-nothing was said} why=$(sed '/^$/d' "$said" | tail -n 1 | head -c 400)
        rm -f "$work/part"
        if [ "$status" = 124 ] || [ "$(left)" = 1 ]; then why="no answer until the deadline (before: ${why:-$before})"; break; fi
        case $1 in s3://* | http*) ;; *) break ;; esac
        case $why in *NoTool* | *NoSuchKey* | *NoSuchBucket* | *"(404)"* | *"error: 404"* | *"No space left"* | *"curl: (23)"*) break ;; esac
        say "try $attempt for ${1%%\?*} failed: $why"
        sleep "$((RANDOM % pause / 1000)).$((RANDOM % 900 + 100))"
        pause=$((pause < 16000 ? pause * 2 : 16000))
    done
    case $why in *RequestTimeTooSkewed*) why="the clock of this node is wrong ($(now)): see that chrony runs. $why" ;; esac
    fail 2 "could not get ${1%%\?*}: $why"
}
FOLLOW='import json, re, sys
told, floors, family, minors = json.load(open(sys.argv[1])), sys.argv[2].split(), sys.argv[3], list(dict.fromkeys(sys.argv[4:]))
strange = [text for text in floors if not re.fullmatch(r"[0-9]{1,9}([.][0-9]{1,9})*", text)]
if strange:
    sys.exit("the floor %r of --version-floor or of /var/lib/mlcluster/version_floor is no version such as 1.2.3: correct it" % strange[0][:40])
floor = max([told.get("floor") or "0", *floors], key=lambda text: [int(part) for part in text.split(".")])
if [int(part) for part in told["version"].split(".")] < [int(part) for part in floor.split(".")]:
    sys.exit("it names version %s and the floor is %s, so this release must not be run any more" % (told["version"], floor))
found = [told["bundles"][name] for name in (family + "-py3." + minor for minor in minors) if name in told["bundles"]]
if not found:
    sys.exit("it has no bundle for %s with Python 3.%s, but for %s" % (family, ", 3.".join(minors), ", ".join(told["bundles"])))
print(found[0]["url"], found[0]["sha256"], floor)'
follow_pointer() { # sets bundle and sha; a floor that the node has seen in a signed pointer stays its floor
    local family=debian minors=() minor pause python key=${opt[public-key]} seen=$root/var/lib/mlcluster/version_floor floor
    if [ -f "$key" ]; then cat "$key"; else printf -- '-----BEGIN PUBLIC KEY-----\n%s\n-----END PUBLIC KEY-----\n' "$key"; fi >"$work/key"
    for pause in 1 3 0; do # moving the pointer replaces two objects: what was read in between does not fit
        fetch "$pointer" "$work/pointer"
        fetch "$pointer.sig" "$work/pointer.sig"
        openssl dgst -sha256 -verify "$work/key" -signature "$work/pointer.sig" "$work/pointer" >"$said" 2>&1 && pause=proved && break
        sleep "$pause"
    done
    [ "$pause" = proved ] ||
        fail 2 "the signature of $pointer is not one of the pinned key ($(head -n 1 "$said")): nothing of it was used"
    case $(sed -nE 's/^ID(_LIKE)?=//p' /etc/os-release "$root/etc/os-release" 2>/dev/null) in *amzn*) family=amazon ;; *rhel* | *fedora*) family=redhat ;; esac
    for python in "${pythons[@]}"; do minor=$("$python" -I -c 'import sys; print(sys.version_info[1])' 2>/dev/null) && minors+=("$minor"); done
    python=$(find_python 6) || fail 2 "this node has no Python: install python3"
    "$python" -I -c "$FOLLOW" "$work/pointer" "${opt[version-floor]:-} $(cat "$seen" 2>/dev/null)" "$family" "${minors[@]}" >"$said" 2>&1 ||
        fail 2 "the pointer $pointer cannot be followed: $(tail -n 1 "$said")"
    read -r bundle sha floor <"$said"
    [[ $sha =~ ^[0-9a-f]{64}$ ]] || fail 2 "the pointer $pointer cannot be followed: it names no sha256 of 64 digits, but '$sha'"
    put "$seen" "$floor"
}

stage=bundle
put "$logs/status.json" "{\"schema\": \"mlcluster.node/1\", \"state\": \"fetching\", \"stage\": \"bundle\", \"updated\": \"$(now)\"}"
[ -z "$pointer" ] || follow_pointer
tree=$home/$sha
if [ ! -d "$tree" ]; then
    fetch "$bundle" "$work/bundle.tar.gz"
    got=$(sha256sum "$work/bundle.tar.gz") got=${got%% *}
    [ "$got" = "$sha" ] || fail 2 "the bundle ${bundle%%\?*} has sha256 $got and not $sha: it was cut short or replaced, and nothing of it was unpacked"
    if ! { mkdir "$work/tree" && tar -xzf "$work/bundle.tar.gz" --no-same-owner --no-same-permissions -C "$work/tree"; } 2>"$said"; then
        fail 2 "could not unpack the bundle into $home: $(head -c 300 "$said")"
    fi
    [ -f "$work/tree/mlcluster-bundle/bin/run-node" ] || fail 2 "${bundle%%\?*} is no bundle: it has no mlcluster-bundle/bin/run-node"
    mv -T "$work/tree" "$tree" || fail 2 "could not move the bundle to $tree"
    rm -f "$work/bundle.tar.gz"
fi
touch "$tree" # of the bundles that are kept, those used last

stage=python
minor=$(sed -nE 's/.*"python": *"3\.([0-9]+)".*/\1/p' "$tree/mlcluster-bundle/MANIFEST.json" | head -n 1)
python=$(find_python "${minor:-10}") ||
    fail 2 "this node has no Python 3.${minor:-10} or newer, not even ParallelCluster's: install python3.${minor:-10}, or give the bundle made for this node's Python"

stage=variables
case ${opt[vars]:-} in
'') : >"$work/vars" ;;
'{'*) echo "${opt[vars]}" >"$work/vars" ;;
*) fetch "${opt[vars]}" "$work/vars" ;;
esac
(umask 077 && printf '%s\0' "${words[@]}" --root "$root/" --vars-file "$work/vars" --bundle-sha256 "$sha" --started-at "$started" --deadline-at "$deadline_at" >"$work/options") ||
    fail 2 "could not write $work/options: is the disk full?"

stage=roles
timeout --kill-after=20 "$(($(left) + 30))" "$python" -I "$tree/mlcluster-bundle/bin/run-node" --options-file "$work/options" &
child=$!
wait "$child"
status=$? child=''
[ -e "$work/options" ] || exit "$status"
rm -rf "$tree" # cut short by a power loss, or spoilt since: the next run unpacks it anew
fail 2 "the bundle's runner ended with status $status before it could report: see what it printed above"
