#!/usr/bin/env bash
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Configures the node that it runs on, from one bundle: ParallelCluster OnNodeConfigured, AWS PCS
# lifecycle action, EC2 user data, or by hand. --help lists the options; docs/boot_hook.md explains.
#
# Order of a run (main, at the end of this file):
#   1. Read the options. Wrong usage ends here; it is reported like a failure if a boot called.
#   2. Take the lock: one run at a time.
#   3. With --pointer: fetch the pointer and prove its signature; it names bundle and SHA-256.
#   4. If the bundle is unpacked already, check it; else fetch it, prove its SHA-256, unpack it.
#   5. Find a Python, fetch the variables, start bin/run-node of the bundle: it runs the roles.
# Trusted: the options, what they pin (the SHA-256, or the public key), and the variables, which
# nothing signs. No code of the bundle runs before its SHA-256 is proved. An unpacked bundle is used
# again only while owner, mode and content of every file are as recorded when it was unpacked.
# Bash, because a node without a suitable Python must still report and drain itself.

HOOK_VERSION=0.1.0 # that of galaxy.yml
USAGE='usage: on_node_configured.sh --bundle SOURCE --sha256 HEX [OPTIONS]
       on_node_configured.sh --pointer SOURCE --public-key KEY [OPTIONS]'

# Name of each option with a value: a pattern, and a description of the value.
numbers='[0-9]{1,9}(\.[0-9]{1,9})*'
role='[[:space:]]*([a-z_][a-z0-9_.]*(:(required|best-effort))?[[:space:]]*)?'
declare -A takes=(
    [bundle]='.*'
    [pointer]='.*'
    [public-key]='.*'
    [vars]='.*'
    [roles]="$role(,$role)* names such as nvme_raid0,nvidia_gds:best-effort"
    [wait-for]='.*'
    [root]='.*'
    [sha256]='([0-9a-f]{64})? 64 hexadecimal digits, small letters'
    [version-floor]="($numbers)? a version such as 1.2.3"
    [deadline]='[0-9]{1,6} whole seconds'
    [wait-seconds]='[0-9]{1,6} whole seconds'
    [phase]='(build|boot)? build or boot'
    [node-type]='(head|login|compute|standalone)? head, login, compute or standalone'
    [on-failure]='continue|drain|terminate continue, drain or terminate'
    [bucket-owner]='([0-9]{12})? the 12 digits of an account'
    [log-prefix]='(s3://[^/]+.*)? an address such as s3://BUCKET/PREFIX'
)
# S3 without the AWS CLI: any Python that has boto3.
S3_PROGRAM='
import shutil, sys, boto3, botocore.config
verb, path, bucket, key, owner = sys.argv[1:]
limits = botocore.config.Config(connect_timeout=10, read_timeout=20)
s3, more = boto3.client("s3", config=limits), {"ExpectedBucketOwner": owner} if owner else {}
if verb == "put":
    s3.upload_file(path, bucket, key, more)
else:
    answer = s3.get_object(Bucket=bucket, Key=key, **more)["Body"]
    shutil.copyfileobj(answer, open(path, "wb"))
'

print_help() {
    cat <<END
$USAGE

Configures this node from a bundle of mlcluster.aws. Run it as root.
A SOURCE is s3://BUCKET/KEY, https://… or a file.

  --bundle SOURCE --sha256 HEX    the bundle and its SHA-256
  --pointer SOURCE                instead: a signed file that names the bundle
  --public-key FILE|BASE64        the key that must have signed the pointer
  --version-floor N.N.N           reject a pointer to an older version
  --vars SOURCE|{JSON}            variables of the roles; no secrets in {JSON}
  --roles a,b:best-effort         the roles, in this order; default: by hardware and node type
  --required | --best-effort      whether a failed role fails the node, or is a warning
  --on-failure POLICY             drain (default), continue, terminate
  --deadline SECONDS              end of the run; default: by the limit of the bootstrap
  --phase build|boot              build: only what an image can hold
  --node-type TYPE                head, login, compute, standalone; default: by the node
  --wait-for PATH                 wait for a file or directory; may be given more than once
  --wait-seconds N                bound of each wait (300)
  --bucket-owner ACCOUNT          the account that every bucket must belong to
  --log-prefix s3://BUCKET/PREFIX where log and status of a failure are copied
  --root DIR                      all paths below another directory, for images and tests
  --dry-run                       show what would be fetched and run; change nothing
  --help, --version

Exit status: 0 configured, or the policy keeps the node; with --on-failure terminate 1 a role
failed, 2 no verdict, 3 wrong options. Wrong options by hand: 3, and nothing is touched.
END
}

# --- Time, log, status -------------------------------------------------------------------------

now() { date -u +%FT%TZ; }

seconds_up() { # no correction of the clock changes it
    local up _
    read -r up _ </proc/uptime
    echo "${up%%.*}"
}

seconds_left() { # until the deadline, at least 1
    local seconds=$((deadline_at - $(seconds_up)))
    echo $((seconds > 1 ? seconds : 1))
}

log_line() { # a line in the logs and on the console, without control characters
    echo "$(now) on_node_configured: ${*//[[:cntrl:]]/ }" | tee -pa "${log_files[@]}" 2>/dev/null
}

write_file() { # FILE TEXT: replaced as a whole, readable by root alone
    { mkdir -p "${1%/*}" && (umask 077 && echo "$2" >"$1.$$" && { sync "$1.$$" || :; }) &&
        mv -fT "$1.$$" "$1"; } 2>/dev/null && return
    rm -f "$1.$$"
    return 1
}

write_status() { # STATE STAGE [MORE JSON]
    local text="{\"schema\": \"mlcluster.node/1\", \"state\": \"$1\", \"stage\": \"$2\""
    write_file "$logs/status.json" "$text, ${3:+$3, }\"updated\": \"$(now)\"}"
}

for_json() { # TEXT as ASCII without characters that JSON escapes: a cut may split a character
    local text
    text=$(echo "${1:0:2000}" | tr '\n\t"\134' "  '/" | tr -d '\000-\037\177-\377')
    echo "${text% }"
}

marker_is_ours() { # whether a run of the hook left the drain marker, and not a person
    [[ $(cat "$root/var/lib/mlcluster/drain.json" 2>/dev/null) = *'"mlcluster boot hook"'* ]]
}

write_marker() { # REASON: keep jobs away; the marker of a person stays
    local marker=$root/var/lib/mlcluster/drain.json text='{"schema": "mlcluster.drain/1"'
    [ ! -s "$marker" ] || marker_is_ours || return 0
    text+=", \"reason\": \"$1\", \"by\": \"mlcluster boot hook\", \"at\": \"$(now)\"}"
    write_file "$marker" "$text" ||
        log_line "cannot write $marker: keep jobs away from this node by hand"
}

shown_words() { # the options for the next command line, without the secrets in them
    local word shown=''
    for word in "${words[@]}"; do
        case $word in
        *\{*) shown+=" '{...}'" ;;
        *'?'*) shown+=" '${word%%\?*}?...'" ;;
        *) shown+=" $(printf %q "$word")" ;;
        esac
    done
    echo "${shown//[[:cntrl:]]/ }"
}

log_next_steps() { # after a run that has drained the node
    log_line "to run it again, as root: bash ${BASH_SOURCE[0]:-on_node_configured.sh}$(shown_words)"
    ! marker_is_ours ||
        log_line "a run that succeeds lifts the drain marker; to lift it without one:" \
            "rm $root/var/lib/mlcluster/drain.json"
}

copy_log_to_s3() {
    local prefix=${opt[log-prefix]:-}
    [ -n "$prefix" ] || return 0
    (s3 put "$log" "${prefix%/}/$(uname -n)/on_node_configured.log" 60) >/dev/null ||
        log_line "the log could not be copied to $prefix"
}

fail() { # CODE SENTENCE…: report the end of a run in place of the runner of the bundle
    local code=$1 text state=failed
    shift
    trap '' TERM INT HUP # nothing breaks into a report
    text=$(for_json "$*")
    [ -z "$work" ] || rm -rf "$work" # first: it may be what has filled the disk
    log_line "ERROR: $text"
    if [ "$policy" = drain ]; then
        state=drained
        write_marker "$text"
        log_next_steps
    fi
    write_status "$state" "$stage" "\"message\": \"$text\", \"exit_code\": $code"
    copy_log_to_s3
    [ "$policy" != terminate ] || exit "$code"
    exit 0
}

# --- Signals -----------------------------------------------------------------------------------

attend() { # COMMAND…: run it; a signal is handled at once, not after the end of the command
    "$@" &
    wait "$!"
    status=$?
    return "$status"
}

leave() { # end with the status of the runner, which has reported
    wait "$!"
    local status=$?
    rm -rf "$work"
    [[ $(<"$logs/status.json") != *'"state": "drained"'* ]] 2>/dev/null || log_next_steps
    exit "$status"
}

# shellcheck disable=SC2317 # a trap calls it
stop() {
    trap '' TERM INT HUP
    { kill %%; wait %%; } 2>/dev/null # the command of attend
    [ "$stage" != roles ] || [ -e "$work/options" ] || leave # the runner has reported
    fail 2 "the run was asked to stop in stage $stage"
}

# --- Options -----------------------------------------------------------------------------------

wrong() { problem=${problem:-$*}; } # the first one is reported

parse_options() { # to the end: the failure policy may follow a wrong option
    local form
    while [ $# -gt 0 ]; do
        case $1 in
        --required | --best-effort) shift && continue ;;
        --help | -h | --version | --dry-run) asked=${asked:-${1#--}} && shift && continue ;;
        esac
        if [[ $1 != --?* || ! ${takes[${1#--}]:-} ]]; then
            wrong "there is no option '${1%%\?*}': see --help"
            shift
        elif [ $# -lt 2 ]; then
            wrong "$1 needs a value"
            shift
        elif form=${takes[${1#--}]} && [[ ! $2 =~ ^(${form%% *})$ ]]; then
            wrong "$1 takes ${form#* }, not '${2%%\?*}'"
            shift 2
        else
            opt[${1#--}]=$2
            shift 2
        fi
    done
}

read_options() { # sets every global that follows from the options
    root=${opt[root]:-}
    root=${root%/}
    logs=$root/var/log/mlcluster
    log=$logs/on_node_configured.log
    log_files=("$log")
    runs=$root/run/mlcluster
    output=$runs/output
    home=$root/opt/mlcluster/bundles
    local pyenv=$root/opt/parallelcluster/pyenv/versions
    pythons=(python3 python3.1{0..9} "$pyenv"/*/{,envs/*/}bin/python3)
    started=$(seconds_up)
    deadline_at=$((started + 10#${opt[deadline]:-900})) # the runner has a deadline of its own
    policy=${opt[on-failure]:-drain}
    bundle=${opt[bundle]:-}
    sha=${opt[sha256]:-}
    pointer=${opt[pointer]:-}
    owner=${opt[bucket-owner]:-}
}

check_options() {
    if [ -z "$pointer" ]; then
        [[ $bundle && $sha ]] || wrong "use --bundle with its --sha256, or --pointer"
    elif [ -n "$bundle$sha" ]; then
        wrong "--pointer names the bundle: leave --bundle and --sha256 out"
    elif [ -z "${opt[public-key]:-}" ]; then
        wrong "--pointer needs --public-key, the key that it has to be signed with"
    fi
    [[ -z $sha || $sha =~ [^0] ]] ||
        wrong "the --sha256 of zeros is a placeholder: use the one that make bundle printed"
    [[ ${opt[vars]:-} != http://* ]] ||
        wrong "--vars takes s3://..., https://..., a file or {JSON}: nothing signs variables," \
            "and anyone on the way can change a file that comes by http://"
    local name
    for name in bundle pointer vars; do
        [[ ! ${opt[$name]:-} =~ ^(s3|https?)://.*[[:cntrl:]] ]] ||
            wrong "the address of --$name has a control character in it"
    done
}

check_rights() {
    [ -n "$root" ] || [ "$(id -u)" = 0 ] || wrong "configuring a node needs root: run it with sudo"
}

called_by_boot() { # whether ParallelCluster, AWS PCS or cloud-init started this run
    [ -z "${cfn_node_type:-}" ] || return 0 # ParallelCluster gives its scripts these variables
    local process=$$ parent command
    while [ "${process:-0}" -gt 1 ]; do
        parent=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$process/status" 2>/dev/null)
        process=$parent
        command=$(tr '\0' ' ' 2>/dev/null <"/proc/${process:-0}/cmdline") || return 1
        case $command in
        *cloud-init* | *cfn-init* | *fetch_and_run* | *custom_action_executor* | */opt/aws/pcs/*)
            return 0
            ;;
        esac
    done
    return 1
}

refuse_usage() { # by hand: print one sentence and the usage, change nothing
    printf 'on_node_configured: %s\n%s\n' "${problem//[[:cntrl:]]/ }" "$USAGE" >&2
    exit 3
}

print_plan() { # --dry-run
    local tree=$home/$sha source=${pointer:-$bundle} vars=${opt[vars]:-none}
    local bundle_is="to be fetched"
    [[ $vars != *\{* ]] || vars='the text of --vars'
    if [ -n "$pointer" ]; then
        bundle_is="named by the pointer, once its signature is proved"
    elif [ -d "$tree" ]; then
        bundle_is="unpacked in $tree, used if it is unchanged"
    fi
    echo "dry run: nothing is fetched, written or run"
    [ -z "$pointer" ] || echo "pointer:    ${source%%\?*}"
    [ -n "$pointer" ] || echo "bundle:     ${source%%\?*}, SHA-256 $sha"
    echo "bundle is:  $bundle_is"
    echo "variables:  ${vars%%\?*}"
    echo "roles:      ${opt[roles]:-by hardware and node type}, phase ${opt[phase]:-boot}"
    echo "then runs:  bin/run-node of the bundle, with the node's Python"
    echo "on failure: $policy"
    echo "log:        $log"
}

# --- Places, lock ------------------------------------------------------------------------------

open_to_others() { # PATH…: the first that another user owns or may write; empty if there is none
    find -H "$@" -maxdepth 0 \( ! -uid "$(id -u)" -o -perm /022 \) \
        -printf '%p (owner %U, mode %m)\n' 2>&1 | head -n 1
}

own_log() { # FILE: makes it if it is missing; whether it is a plain file of this user alone
    local new
    if [ ! -e "$1" ] && [ ! -L "$1" ]; then
        new=$(mktemp "$1.XXXXXXXX") && chmod 0644 "$new" && mv -nT "$new" "$1"
        rm -f "$new"
    fi 2>/dev/null
    [ -n "$(find "$1" -maxdepth 0 -type f -uid "$(id -u)" -links 1 2>/dev/null)" ]
}

make_directories() {
    local cluster_log=$root/var/log/parallelcluster/mlcluster.log
    mkdir -p "$logs" "$home" "$runs" "$root/var/lib/mlcluster" 2>/dev/null
    [ -d "${cluster_log%/*}" ] || return 0
    # ParallelCluster lets every user write there
    if own_log "$cluster_log"; then
        log_files+=("$cluster_log")
    else
        log_line "nothing is written to $cluster_log, which is not a plain file of this user alone"
    fi
}

take_lock() { # for root alone: any user who could open it could hold it until the deadline
    local open
    open=$(open_to_others "$runs" "$root/var/lib/mlcluster")
    [ -z "$open" ] ||
        fail 2 "others may write where lock and state are, $open: set owner root and mode 0755"
    { (umask 077 && : >>"$runs/hook.lock") && chmod 0600 "$runs/hook.lock" &&
        exec 9>>"$runs/hook.lock"; } 2>/dev/null ||
        fail 2 "cannot write $runs/hook.lock: is the disk full or read-only?"
    trap 'rm -rf "$work"' EXIT
    attend flock -w "$(seconds_left)" 9 ||
        fail 2 "another run has held $runs/hook.lock until the deadline: see $logs"
}

clean_up() { # files of a killed run: no other run is active
    rm -rf "$home"/.work.* "$logs"/{,.}status.json.?* \
        "$root"/var/lib/mlcluster/{,.}{drain.json,version_floor}.?*
    work=$(mktemp -d "$home/.work.XXXXXX" 2>/dev/null) ||
        fail 2 "cannot make a directory below $home: is the disk full or read-only?"
}

# --- Python, downloads -------------------------------------------------------------------------

find_python() { # LOWEST-MINOR [CODE to run]: that version first, ParallelCluster's own last
    local candidate code
    code="import sys; sys.version_info[:2] >= (3, $1) or sys.exit(1)"
    code+=${2:+; import site; site.main(); $2} # what a node has installed is for this alone
    for candidate in "python3.$1" "${pythons[@]}"; do
        timeout 30 "$candidate" -IS -c "$code" >/dev/null 2>&1 && command -v "$candidate" && return
    done
}

s3() { # get|put FILE ADDRESS SECONDS, in a subshell, which it becomes
    local bucket=${3#s3://} python limits=(--cli-connect-timeout 10 --cli-read-timeout 20)
    local key=${bucket#*/} file=(--body "$2")
    bucket=${bucket%%/*}
    if [ "$1" = get ]; then
        file=("$2")
        export AWS_MAX_ATTEMPTS=1 # fetch tries again itself
    fi
    command -v aws >/dev/null &&
        exec timeout "$4" aws s3api "$1-object" "${limits[@]}" --bucket "$bucket" --key "$key" \
            "${file[@]}" ${owner:+--expected-bucket-owner "$owner"}
    python=$(find_python 6 'import boto3') &&
        exec timeout "$4" "$python" -I -c "$S3_PROGRAM" "$1" "$2" "$bucket" "$key" "$owner"
    echo "NoTool: neither the AWS CLI nor a Python with boto3 is here:" \
        "install one, or use a presigned https address"
    return 1
}

https_get() { # FILE ADDRESS SECONDS; the address may be a secret, so it is on no command line
    local address=${2//\\/\\\\}
    exec curl -fsSLg --proto-redir =https --connect-timeout 10 --speed-limit 1024 --speed-time 20 \
        --max-time "$3" -o "$1" --config - <<<"url = \"${address//\"/\\\"}\""
}

# shellcheck disable=SC2317 # attend calls it
fetch_once() { # SOURCE TARGET
    case $1 in
    s3://*) s3 get "$2" "$1" "$(seconds_left)" ;;
    https://* | http://*) https_get "$2" "$1" "$(seconds_left)" ;;
    *) exec timeout "$(seconds_left)" cp -- "$1" "$2" ;; # of a mount that may hang
    esac
} >"$output" 2>&1

last_line() { # of the program that ran last, without what follows a question mark
    sed '/^$/d; s/?[^ ]*//g' "$output" | tail -n 1 | head -c 400
}

is_final() { # SOURCE REASON: whether another try would fail too
    [[ $1 =~ ^(s3|https?):// ]] || return 0
    [[ $2 =~ NoTool|NoSuchKey|NoSuchBucket|\(404\)|error:\ 404|No\ space\ left|curl:\ \(23\) ]]
}

pause() { # ATTEMPT: grows and varies, so that a fleet does not come back at once
    local most=$(($1 < 5 ? 1 << ($1 - 1) : 16))
    attend sleep "$((RANDOM % most)).$((RANDOM % 900 + 100))"
}

fetch() { # SOURCE TARGET: whole or not at all
    local attempt why='' before
    for attempt in 1 2 3 4 5 6 7 8; do
        attend fetch_once "$1" "$work/part" && mv "$work/part" "$2" && return
        before=${why:-no error output}
        why=$(last_line)
        rm -f "$work/part"
        if [ "$status" = 124 ] || [ "$(seconds_left)" = 1 ]; then
            why="no answer until the deadline (before: ${why:-$before})"
            break
        fi
        ! is_final "$1" "$why" || break
        log_line "try $attempt for ${1%%\?*} failed: $why"
        pause "$attempt"
    done
    [[ $why != *RequestTimeTooSkewed* ]] ||
        why="the clock of this node is wrong ($(now)): check that chrony runs. $why"
    fail 2 "could not get ${1%%\?*}: $why"
}

# --- Pointer -----------------------------------------------------------------------------------

write_key() { # FILE: the public key as PEM
    local key=${opt[public-key]}
    if [ -f "$key" ]; then
        cat "$key"
    else
        printf -- '-----BEGIN PUBLIC KEY-----\n%s\n-----END PUBLIC KEY-----\n' "$key"
    fi >"$1"
}

fetch_pointer() { # FILE: its text, proved. Line 1 signs the others: one object, one signature
    write_key "$work/key"
    fetch "$pointer" "$work/pointer"
    tail -n +2 "$work/pointer" >"$1"
    head -n 1 "$work/pointer" | base64 -d >"$work/signature" 2>/dev/null
    openssl dgst -sha256 -verify "$work/key" -signature "$work/signature" "$1" >"$output" 2>&1 ||
        fail 2 "the signature of ${pointer%%\?*} is not one of the pinned key" \
            "($(head -n 1 "$output")): nothing of it was used"
}

highest() { printf '%s\n' "$@" | sort -V | tail -n 1; }

check_floor() { # TEXT: sets new_floor, the highest floor read so far; older versions are refused
    local version floor=0 seen=$root/var/lib/mlcluster/version_floor
    # Line 1 is the schema: of a text with another one no line is read.
    version=$(sed -n '1{/^mlcluster\.pointer\/1$/!q}; s/^version //p' "$1")
    [ ! -e "$seen" ] || floor=$(head -c 99 "$seen" 2>&1 | tr '\000' '?')
    [[ $floor =~ ^$numbers$ ]] ||
        fail 2 "the floor '$floor' in $seen is not a version such as 1.2.3: correct it"
    floor=$(highest "$floor" "${opt[version-floor]:-0}" "$(sed -n 's/^floor //p' "$1")")
    [[ $version\ $floor =~ ^$numbers\ $numbers$ && $(highest "$version" "$floor") = "$version" ]] ||
        fail 2 "${pointer%%\?*} names version ${version:-none that this hook reads} and the floor" \
            "is $floor, so this release must not be run any more"
    new_floor=$floor
}

system_family() {
    case $(sed -nE 's/^ID(_LIKE)?=//p' /etc/os-release "$root/etc/os-release" 2>/dev/null) in
    *amzn*) echo amazon ;;
    *rhel* | *fedora*) echo redhat ;;
    *) echo debian ;;
    esac
}

choose_bundle() { # TEXT: sets bundle and sha for the first Python that has one
    local family minors=() minor python line
    local print_minor='import sys; print("\n%d" % sys.version_info[1])'
    family=$(system_family)
    for python in "${pythons[@]}"; do
        minor=$(timeout 30 "$python" -I -c "$print_minor" 2>/dev/null | tail -n 1)
        [[ $minor =~ ^[0-9]+$ ]] || continue
        line=$(sed -nE "s/^bundle $family-py3\.$minor ([^ ]+ [0-9a-f]{64})$/\1/p" "$1")
        read -r bundle sha <<<"${line%%$'\n'*}"
        [ -z "$sha" ] || return
        [[ " ${minors[*]} " = *" 3.$minor "* ]] || minors+=("3.$minor")
    done
    fail 2 "${pointer%%\?*} has no bundle for $family with this node's Python" \
        "(${minors[*]:-none found}), but for $(sed -nE 's/^bundle ([^ ]+) .*/\1/p' "$1")"
}

follow_pointer() { # sets bundle and sha
    local text=$work/text new_floor seen=$root/var/lib/mlcluster/version_floor
    fetch_pointer "$text"
    check_floor "$text"
    choose_bundle "$text"
    write_file "$seen" "$new_floor" ||
        log_line "cannot write $seen: the floor $new_floor is not remembered"
}

# --- Bundle ------------------------------------------------------------------------------------

list_tree() { # type, mode, owner and link of all that is in the bundle
    find mlcluster-bundle -printf '%y %m %U %p %l\n'
}

describe_tree() { # DIRECTORY: the same, and the SHA-256 of each file
    (cd "$1" && { list_tree && find mlcluster-bundle -type f -exec sha256sum -b {} +; } | sort)
}

record_tree() { # DIRECTORY: what describe_tree must find later; the proved archive has the sums
    local sums=mlcluster-bundle/SUMS
    if [ -f "$1/$sums" ]; then
        (cd "$1" && { list_tree && sha256sum -b "$sums" && cat "$sums"; } | sort)
    else
        describe_tree "$1" # of an earlier release
    fi
}

changed_since() { # DIRECTORY: the first difference from its record; empty if unchanged
    local tree=$1 open
    if [ ! -f "$tree/record" ]; then
        echo "there is no record of its unpacking"
        return
    fi
    open=$(open_to_others "$tree" "$tree/record")
    if [ -n "$open" ]; then
        echo "others may write $open"
        return
    fi
    rm -rf "$tree/mlcluster-bundle/programs" # each run makes it
    describe_tree "$tree" 2>&1 | comm -3 - "$tree/record" 2>&1 | head -n 1 | tr -d '\t'
}

check_unpacked() { # removes an unpacked bundle that was changed
    local changed
    changed=$(changed_since "$tree")
    [ -n "$changed" ] || return 0
    log_line "the bundle in $tree has changed since it was unpacked ($changed): it is removed" \
        "and unpacked again"
    rm -rf "$tree"
}

check_places() { # programs of root must not be in a directory that others may write
    local open
    open=$(open_to_others "$root/opt" "$root/opt/mlcluster" "$home")
    [ -z "$open" ] || fail 2 "others may write where bundles are unpacked, $open:" \
        "set owner root and mode 0755"
}

prove_sum() { # FILE
    local got
    got=$(sha256sum "$1")
    got=${got%% *}
    [ "$got" = "$sha" ] ||
        fail 2 "the bundle ${bundle%%\?*} has sha256 $got and not $sha: it was cut short or" \
            "replaced, and nothing of it was unpacked"
}

unpack() { # FILE: into $tree, whole or not at all; tar refuses members that would leave $new
    local new=$work/tree
    { mkdir "$new" &&
        attend tar -xzf "$1" --no-same-owner --no-same-permissions -C "$new" &&
        rm "$1"; } 2>"$output" ||
        fail 2 "could not unpack the bundle into $home: $(head -c 300 "$output")"
    [ -f "$new/mlcluster-bundle/bin/run-node" ] ||
        fail 2 "${bundle%%\?*} is not a bundle: it has no mlcluster-bundle/bin/run-node"
    { record_tree "$new" >"$work/record" && mv "$work/record" "$new/record"; } 2>/dev/null ||
        fail 2 "could not record what was unpacked into $home: is the disk full?"
    mv -T "$new" "$tree" || fail 2 "could not move the bundle to $tree"
}

get_bundle() {
    tree=$home/$sha
    check_places
    [ ! -d "$tree" ] || check_unpacked
    if [ ! -d "$tree" ]; then
        fetch "$bundle" "$work/bundle.tar.gz"
        prove_sum "$work/bundle.tar.gz"
        unpack "$work/bundle.tar.gz"
    fi
    touch "$tree" # the runner keeps the bundles that were used last
}

# --- Run ---------------------------------------------------------------------------------------

choose_python() { # sets python
    local minor manifest=$tree/mlcluster-bundle/MANIFEST.json
    minor=$(sed -nE 's/.*"python": *"3\.([0-9]+)".*/\1/p' "$manifest" | head -n 1)
    python=$(find_python "${minor:-10}") ||
        fail 2 "this node has no Python 3.${minor:-10} or newer, not even ParallelCluster's:" \
            "install python3.${minor:-10}, or use the bundle made for this node's Python"
}

write_variables() { # and the options, in files: a command line is open to every user
    local vars=${opt[vars]:-} more
    [[ $vars =~ ^[[:space:]]*(\{|$) ]] || fetch "$vars" "$work/vars"
    more=(--root "$root/" --vars-file "$work/vars" --bundle-sha256 "$sha" --started-at "$started")
    (umask 077 && { [ -e "$work/vars" ] || echo "$vars" >"$work/vars"; } &&
        printf '%s\0' "${words[@]}" "${more[@]}" >"$work/options") ||
        fail 2 "could not write $work/options or vars: is the disk full?"
}

run_roles() { # the runner removes the file of options once it has reported
    attend "$python" -ISB "$tree/mlcluster-bundle/bin/run-node" --options-file "$work/options"
    [ -e "$work/options" ] || leave
    rm -rf "$tree" # interrupted by a power loss, or damaged since: the next run unpacks it again
    fail 2 "the bundle's runner ended with status $status before it could report:" \
        "see what it printed above"
}

set_region() { # that of the cluster, unless the environment has one
    local region config=$root/etc/parallelcluster/cfnconfig
    region=$(sed -n "s/^cfn_region=//p" "$config" 2>/dev/null | tr -d "\"'")
    [ -n "${AWS_REGION:-}${AWS_DEFAULT_REGION:-}" ] || [ -z "$region" ] ||
        export AWS_DEFAULT_REGION=$region
}

main() {
    set -uo pipefail
    stopped_early=''
    trap 'stopped_early=1' TERM INT HUP # handled once the failure policy is known
    umask 022
    export LC_ALL=C # what programs print is read
    [[ -e /dev/fd/1 && -e /dev/fd/2 ]] || exec >/dev/null 2>&1 # else a log would take their place
    words=("$@") work='' stage=arguments problem='' asked=''
    declare -gA opt=()
    parse_options "$@"
    case $asked in
    help | -h) print_help && exit 0 ;;
    version) echo "on_node_configured.sh of mlcluster.aws $HOOK_VERSION" && exit 0 ;;
    esac
    read_options
    set_region
    check_options
    if [ "$asked" = dry-run ]; then
        [ -z "$problem" ] || refuse_usage
        print_plan
        exit 0
    fi
    check_rights
    [ -z "$problem" ] || [ -n "${opt[on-failure]:-}" ] || called_by_boot || refuse_usage
    make_directories
    trap stop TERM INT HUP
    [ -z "$stopped_early" ] || stop
    [ -z "$problem" ] || fail 3 "$problem"

    stage=lock
    take_lock
    clean_up

    stage=bundle
    write_status fetching bundle
    [ -z "$pointer" ] || follow_pointer
    get_bundle

    stage=python
    choose_python

    stage=variables
    write_variables

    stage=roles
    run_roles
}

(return 0 2>/dev/null) || main "$@" # sourced, it defines its functions and runs nothing
