#!/usr/bin/env bash
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Configures the node that it runs on, from one bundle: ParallelCluster OnNodeConfigured, AWS PCS lifecycle action, EC2
# user data, or by hand. docs/boot_hook.md has the options, the exit codes, and what lies where.
#   on_node_configured.sh --bundle s3://…|https://…|FILE --sha256 HEX [--vars s3://…|https://…|FILE|JSON] [OPTIONS]
#   on_node_configured.sh --pointer s3://…|https://…|FILE --public-key FILE|BASE64 [--version-floor N.N.N] …

set -uo pipefail && told='' && trap 'told=1' TERM INT HUP # heeded once it is known how a failure is reported
umask 022 && export LC_ALL=C # what programs say is read below
[[ -e /dev/fd/1 && -e /dev/fd/2 ]] || exec >/dev/null 2>&1 # else a log would be opened in their place
words=("$@") work='' stage=arguments problem='' numbers='[0-9]{1,9}(\.[0-9]{1,9})*'
declare -A opt takes=( # a pattern, and the words for it
    [bundle]='.*' [pointer]='.*' [public-key]='.*' [vars]='.*' [roles]='.*' [phase]='.*' [node-type]='.*' [wait-for]='.*' [wait-seconds]='.*' [root]='.*'
    [sha256]='([0-9a-f]{64})? 64 hexadecimal digits, small letters' [version-floor]="($numbers)? a version such as 1.2.3" [deadline]='[0-9]{1,6} whole seconds'
    [on-failure]='continue|drain|terminate continue, drain or terminate' [bucket-owner]='([0-9]{12})? the 12 digits of an account' [log-prefix]='(s3://[^/]+.*)? an address such as s3://BUCKET/PREFIX'
)

now() { date -u +%FT%TZ; }
uptime_now() { local up _; read -r up _ </proc/uptime; echo "${up%%.*}"; } # no correction of the clock changes it
left() { local seconds=$((deadline_at - $(uptime_now))); echo $((seconds > 1 ? seconds : 1)); }
say() { echo "$(now) on_node_configured: ${*//[[:cntrl:]]/ }" | tee -pa "${log_files[@]}" 2>/dev/null; }
put() { { mkdir -p "${1%/*}" && (umask 077 && echo "$2" >"$1.$$" && { sync "$1.$$" || :; }) && mv -fT "$1.$$" "$1"; } 2>/dev/null || { rm -f "$1.$$" && false; }; }
fail() { # CODE SENTENCE: the end of a run that the bundle's own runner could not report; no order to stop breaks into it
    local text state=failed marker=$root/var/lib/mlcluster/drain.json
    trap '' TERM INT HUP && text=$(echo "${2:0:2000}" | tr '\n\t"\134' "  '/" | tr -d '\000-\037\177-\377') text=${text% } # half a character is no JSON
    [ -z "$work" ] || rm -rf "$work" # first, for it may be what has filled the disk
    say "ERROR: $text"
    if [ "$policy" = drain ]; then
        state=drained
        [[ -s $marker && $(cat "$marker" 2>/dev/null) != *'"mlcluster boot hook"'* ]] || # a person's own stays
            put "$marker" "{\"schema\": \"mlcluster.drain/1\", \"reason\": \"$text\", \"by\": \"mlcluster boot hook\", \"at\": \"$(now)\"}" ||
            say "cannot write $marker: keep jobs away from this node by hand"
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
        timeout 30 "$candidate" -I -c "import sys; sys.version_info[:2] >= (3, $1) or sys.exit(1); ${2:-}" >/dev/null 2>&1 && command -v "$candidate" && return
    done
}
SDK='import shutil, sys, boto3, botocore.config as c
verb, path, bucket, key, owner = sys.argv[1:]
s3, more = boto3.client("s3", config=c.Config(connect_timeout=10, read_timeout=20)), {"ExpectedBucketOwner": owner} if owner else {}
s3.upload_file(path, bucket, key, more) if verb == "put" else shutil.copyfileobj(s3.get_object(Bucket=bucket, Key=key, **more)["Body"], open(path, "wb"))'
s3() { # get|put FILE ADDRESS SECONDS, in a subshell, which it becomes
    local bucket=${3#s3://} python file=(--body "$2")
    if [ "$1" = get ]; then file=("$2") && export AWS_MAX_ATTEMPTS=1; fi # fetch tries again itself
    command -v aws >/dev/null &&
        exec timeout "$4" aws s3api "$1-object" --cli-connect-timeout 10 --cli-read-timeout 20 --bucket "${bucket%%/*}" --key "${bucket#*/}" "${file[@]}" ${owner:+--expected-bucket-owner "$owner"}
    python=$(find_python 6 'import boto3') && exec timeout "$4" "$python" -I -c "$SDK" "$1" "$2" "${bucket%%/*}" "${bucket#*/}" "$owner"
    echo "NoTool: neither the AWS CLI nor a Python with boto3 is here: install one, or give a presigned https address" && return 1
}
leave() { wait "$!"; local status=$?; rm -rf "$work"; exit "$status"; } # as the bundle's runner, which has reported, did before
# shellcheck disable=SC2317 # a trap calls it
stop() {
    trap '' TERM INT HUP
    { kill %%; wait %%; } 2>/dev/null # the shell itself knows what runs: a variable would learn of it a moment too late
    [ "$stage" != roles ] || [ -e "$work/options" ] || leave
    fail 2 "the run was told to stop in stage $stage"
}

attend() { "$@" & wait "$!"; status=$?; return "$status"; } # a trap waits for what is in the foreground
wrong() { problem=${problem:-$1}; }
while [ $# -gt 0 ]; do # to the end, for where and how a failure is reported may stand behind what is wrong
    if [[ $1 =~ ^--(required|best-effort)$ ]]; then shift
    elif [[ $1 != --?* || ! ${takes[${1#--}]:-} ]]; then wrong "there is no option '${1%%\?*}': see docs/boot_hook.md"; shift
    elif [ $# -lt 2 ]; then wrong "$1 needs a value"; shift
    elif form=${takes[${1#--}]} && [[ ! $2 =~ ^(${form%% *})$ ]]; then wrong "$1 takes ${form#* }, not '${2%%\?*}'"; shift 2
    else opt[${1#--}]=$2 && shift 2; fi
done
root=${opt[root]:-} root=${root%/} logs=$root/var/log/mlcluster log_files=("$logs/on_node_configured.log") said=$root/run/mlcluster/said home=$root/opt/mlcluster/bundles
[ ! -d "$root/var/log/parallelcluster" ] || log_files+=("$root/var/log/parallelcluster/mlcluster.log")
pythons=(python3 python3.1{0..9} "$root"/opt/parallelcluster/pyenv/versions/*/{,envs/*/}bin/python3)
region=$(sed -n "s/^cfn_region=//p" "$root/etc/parallelcluster/cfnconfig" 2>/dev/null | tr -d "\"'")
[ -n "${AWS_REGION:-}${AWS_DEFAULT_REGION:-}" ] || [ -z "$region" ] || export AWS_DEFAULT_REGION=$region
started=$(uptime_now) deadline_at=$((started + 10#${opt[deadline]:-900})) # of what comes before the runner, which has its own
policy=${opt[on-failure]:-drain} bundle=${opt[bundle]:-} sha=${opt[sha256]:-} pointer=${opt[pointer]:-} owner=${opt[bucket-owner]:-}
mkdir -p "$logs" "$home" "$root/run/mlcluster" "$root/var/lib/mlcluster" 2>/dev/null; trap stop TERM INT HUP; [ -z "$told" ] || stop
if [ -z "$pointer" ]; then [[ $bundle && $sha ]] || wrong "give --bundle with its --sha256, or --pointer"
elif [ -n "$bundle$sha" ]; then wrong "--pointer names the bundle: leave --bundle and --sha256 out"
elif [ -z "${opt[public-key]:-}" ]; then wrong "--pointer needs --public-key, the key that it has to be signed with"; fi
[[ -z $sha || $sha =~ [^0] ]] || wrong "the --sha256 of zeros is a placeholder: give the one that make bundle has printed"
[ -n "$root" ] || [ "$(id -u)" = 0 ] || wrong "configuring a node needs root: run it with sudo"
[ -z "$problem" ] || fail 3 "$problem"

stage=lock
{ exec 9>"$root/run/mlcluster/hook.lock"; } 2>/dev/null || fail 2 "cannot write $root/run/mlcluster/hook.lock: is the disk full or read-only?"
trap 'rm -rf "$work"' EXIT
attend flock -w "$(left)" 9 || fail 2 "another run has held $root/run/mlcluster/hook.lock until the deadline: see $logs"
rm -rf "$home"/.work.* "$logs"/{,.}status.json.?* "$root"/var/lib/mlcluster/{,.}{drain.json,version_floor}.?* # of a run that was killed: nobody else is here
work=$(mktemp -d "$home/.work.XXXXXX" 2>/dev/null) || fail 2 "cannot make a directory below $home: is the disk full or read-only?"
# shellcheck disable=SC2317 # attend calls it
fetch_once() {
    case $1 in
    s3://*) s3 get "$2" "$1" "$(left)" ;;
    https://* | http://*) exec curl -fsSLg --proto-redir =https --connect-timeout 10 --speed-limit 1024 --speed-time 20 --max-time "$(left)" -o "$2" "$1" ;;
    *) exec timeout "$(left)" cp -- "$1" "$2" ;; # of a mount that may hang
    esac
} >"$said" 2>&1
fetch() { # SOURCE TARGET: whole or not at all; what is not in vain is tried again, after a pause that grows and varies
    local attempt why='' before
    for attempt in 1 2 3 4 5 6 7 8; do
        attend fetch_once "$1" "$work/part" && mv "$work/part" "$2" && return
        before=${why:-nothing was said} why=$(sed '/^$/d; s/?[^ ]*//g' "$said" | tail -n 1 | head -c 400)
        rm -f "$work/part"
        if [ "$status" = 124 ] || [ "$(left)" = 1 ]; then why="no answer until the deadline (before: ${why:-$before})" && break; fi
        [[ $1 =~ ^(s3|https?):// && ! $why =~ NoTool|NoSuchKey|NoSuchBucket|\(404\)|error:\ 404|No\ space\ left|curl:\ \(23\) ]] || break
        say "try $attempt for ${1%%\?*} failed: $why"
        attend sleep "$((RANDOM % (attempt < 5 ? 1 << (attempt - 1) : 16))).$((RANDOM % 900 + 100))"
    done
    [[ $why != *RequestTimeTooSkewed* ]] || why="the clock of this node is wrong ($(now)): see that chrony runs. $why"
    fail 2 "could not get ${1%%\?*}: $why"
}
follow_pointer() { # sets bundle and sha; a floor that the node has seen in a signed pointer stays its floor
    local family=debian minors=() minor python version floor=0 key=${opt[public-key]} seen=$root/var/lib/mlcluster/version_floor told=$work/told
    if [ -f "$key" ]; then cat "$key"; else printf -- '-----BEGIN PUBLIC KEY-----\n%s\n-----END PUBLIC KEY-----\n' "$key"; fi >"$work/key"
    fetch "$pointer" "$work/pointer" # one object, so that its signature cannot be another's: line 1 signs all others
    tail -n +2 "$work/pointer" >"$told" && head -n 1 "$work/pointer" | base64 -d >"$work/signature" 2>/dev/null
    openssl dgst -sha256 -verify "$work/key" -signature "$work/signature" "$told" >"$said" 2>&1 ||
        fail 2 "the signature of ${pointer%%\?*} is not one of the pinned key ($(head -n 1 "$said")): nothing of it was used"
    version=$(sed -n '1{/^mlcluster\.pointer\/1$/!q}; s/^version //p' "$told")
    [ ! -e "$seen" ] || floor=$(head -c 99 "$seen" 2>&1 | tr '\000' '?')
    [[ $floor =~ ^$numbers$ ]] || fail 2 "the floor '$floor' in $seen is no version such as 1.2.3: correct it"
    floor=$(printf '%s\n' "$floor" "${opt[version-floor]:-0}" "$(sed -n 's/^floor //p' "$told")" | sort -V | tail -n 1)
    [[ $version\ $floor =~ ^$numbers\ $numbers$ && $(printf '%s\n' "$version" "$floor" | sort -V | head -n 1) = "$floor" ]] ||
        fail 2 "${pointer%%\?*} names version ${version:-none that this hook reads} and the floor is $floor, so this release must not be run any more"
    case $(sed -nE 's/^ID(_LIKE)?=//p' /etc/os-release "$root/etc/os-release" 2>/dev/null) in *amzn*) family=amazon ;; *rhel* | *fedora*) family=redhat ;; esac
    for python in "${pythons[@]}"; do
        minor=$(timeout 30 "$python" -I -c 'import sys; print("\n%d" % sys.version_info[1])' 2>/dev/null | tail -n 1)
        [[ $minor =~ ^[0-9]+$ ]] || continue
        read -r bundle sha < <(sed -nE "s/^bundle $family-py3\.$minor ([^ ]+ [0-9a-f]{64})$/\1/p" "$told"); [ -z "$sha" ] || break
        [[ " ${minors[*]} " = *" 3.$minor "* ]] || minors+=("3.$minor")
    done
    [ -n "$sha" ] || fail 2 "${pointer%%\?*} has no bundle for $family with this node's Python (${minors[*]:-none found}), but for $(sed -nE 's/^bundle ([^ ]+) .*/\1/p' "$told")"
    put "$seen" "$floor" || say "cannot write $seen: the floor $floor is not remembered"
}

stage=bundle
put "$logs/status.json" "{\"schema\": \"mlcluster.node/1\", \"state\": \"fetching\", \"stage\": \"bundle\", \"updated\": \"$(now)\"}"
[ -z "$pointer" ] || follow_pointer
tree=$home/$sha
if [ ! -d "$tree" ]; then
    fetch "$bundle" "$work/bundle.tar.gz"
    got=$(sha256sum "$work/bundle.tar.gz") got=${got%% *}
    [ "$got" = "$sha" ] || fail 2 "the bundle ${bundle%%\?*} has sha256 $got and not $sha: it was cut short or replaced, and nothing of it was unpacked"
    { mkdir "$work/tree" && attend tar -xzf "$work/bundle.tar.gz" --no-same-owner --no-same-permissions -C "$work/tree" && rm "$work/bundle.tar.gz"; } 2>"$said" ||
        fail 2 "could not unpack the bundle into $home: $(head -c 300 "$said")"
    [ -f "$work/tree/mlcluster-bundle/bin/run-node" ] || fail 2 "${bundle%%\?*} is no bundle: it has no mlcluster-bundle/bin/run-node"
    mv -T "$work/tree" "$tree" || fail 2 "could not move the bundle to $tree"
fi
touch "$tree" # of the bundles that are kept, those used last

stage=python
minor=$(sed -nE 's/.*"python": *"3\.([0-9]+)".*/\1/p' "$tree/mlcluster-bundle/MANIFEST.json" | head -n 1)
python=$(find_python "${minor:-10}") ||
    fail 2 "this node has no Python 3.${minor:-10} or newer, not even ParallelCluster's: install python3.${minor:-10}, or give the bundle made for this node's Python"

stage=variables
[[ ${opt[vars]:-} =~ ^[[:space:]]*(\{|$) ]] || fetch "${opt[vars]}" "$work/vars"
(umask 077 && { [ -e "$work/vars" ] || echo "${opt[vars]:-}" >"$work/vars"; } && printf '%s\0' "${words[@]}" --root "$root/" --vars-file "$work/vars" --bundle-sha256 "$sha" --started-at "$started" >"$work/options") ||
    fail 2 "could not write $work/options or vars: is the disk full?"

stage=roles
attend "$python" -I "$tree/mlcluster-bundle/bin/run-node" --options-file "$work/options"
[ -e "$work/options" ] || leave
rm -rf "$tree" # cut short by a power loss, or spoilt since: the next run unpacks it anew
fail 2 "the bundle's runner ended with status $status before it could report: see what it printed above"
