#!/usr/bin/env bash
# `burnish launch --ssh` beside a real sshd on loopback: a run goes there, is followed through a line that breaks, stopped, gone on with,
# and its LoRA comes back; wrong keys, programs that are not there and full disks are told.
# usage: check_launch.sh BURNISH (root, openssh-server and rsync)
set -euo pipefail
burnish=$(readlink -f "$1")
cd "$(dirname "$(readlink -f "$0")")/../.."
repository=$PWD
work=$(mktemp -d)
server="" job=""
say() { printf '[launch] %s\n' "$*"; }
die() { say "$*" >&2; exit 1; }
clean_up() {
  local process
  for process in "$work"/there/runs/*/process; do [[ ! -s $process ]] || kill "$(<"$process")" 2>/dev/null || true; done  # it outlives its line
  [[ -z $server ]] || kill "$server" 2>/dev/null || true
  [[ -z $job ]] || kill "$job" 2>/dev/null || true
  if mountpoint -q "$work/there/small"; then umount "$work/there/small"; fi
  rm -rf "$work"
}
trap clean_up EXIT

port=$((20000 + RANDOM % 20000))
mkdir -p "$work/there/small" "$work/keys" "$work/here" /run/sshd
chmod 755 "$work" "$work/there"
for key in host user other; do ssh-keygen -q -t ed25519 -N '' -f "$work/keys/$key"; done
cat >"$work/sshd_config" <<TEXT
Port $port
ListenAddress 127.0.0.1
HostKey $work/keys/host
AuthorizedKeysFile $work/keys/user.pub
PidFile none
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
PermitRootLogin yes
SetEnv HOME=$work/there
TEXT
# The home folder there is another than the one here: every command goes to it first.
cat >"$work/keys/config" <<TEXT
Host there
  HostName 127.0.0.1
  Port $port
  User $(id -un)
  IdentityFile $work/keys/user
  IdentitiesOnly yes
  UserKnownHostsFile $work/keys/known
  StrictHostKeyChecking accept-new
TEXT
mkdir -p "$work/bin"
printf '#!/bin/sh\nexec /usr/bin/ssh -F %s "$@"\n' "$work/keys/config" >"$work/bin/ssh"
chmod +x "$work/bin/ssh"
export PATH=$work/bin:$PATH
serve() { /usr/sbin/sshd -D -e -f "$work/sshd_config" 2>>"$work/sshd.log" & server=$!; sleep 0.5; }
cut_line() { kill "$server"; pkill -P "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; server=""; pkill -f "sshd: .*@notty" 2>/dev/null || true; }

ln -s "$repository/assets/tiny-flux" "$work/here/model"  # links arrive as what they lead to
cp -r tests/golden/pipeline/pictures "$work/here/my pictures"
cd "$work/here"
launch=("$burnish" launch --ssh there --remote_folder "$work/there/runs" --remote_program "$burnish" --poll_seconds 0.3)
options=(train --model model --dtype fp32 --num_threads 1 --dataset_metadata_path "my pictures/metadata.csv" --height 64 --width 64
  --lora_rank 4 --output_path runs/cat --save_steps 5)

serve
say "a run there, whose LoRA comes back"
"${launch[@]}" -- "${options[@]}" --max_steps 10 >said 2>&1 || { cat said; die "the run failed"; }
[[ -f runs/cat/step-10.safetensors && -f runs/cat/log.jsonl ]] || { cat said; die "its files are not here"; }
[[ ! -e runs/cat/state ]] || die "its state came too, which is large and stays there"
"$burnish" train --model model --dtype fp32 --num_threads 1 --dataset_metadata_path "my pictures/metadata.csv" --height 64 --width 64 \
  --lora_rank 4 --output_path runs/local --max_steps 10 >/dev/null 2>&1
cmp runs/cat/step-10.safetensors runs/local/step-10.safetensors || die "a LoRA that was trained there has other bytes"

say "the same command again sends and starts nothing"
"${launch[@]}" -- "${options[@]}" --max_steps 10 >said 2>&1
! grep -q "step 1/" said || die "it trained again"

say "more steps go on from there"
"${launch[@]}" -- "${options[@]}" --max_steps 15 >said 2>&1 || { cat said; die "going on failed"; }
[[ -f runs/cat/step-15.safetensors ]] || die "the later steps are not here"

say "a line that breaks is waited for"
"${launch[@]}" -- "${options[@]}" --output_path runs/long --max_steps 100000 >said 2>&1 & job=$!
for _ in $(seq 200); do if [[ -f runs/long/log.jsonl ]]; then break; fi; sleep 0.2; done
[[ -f runs/long/log.jsonl ]] || { cat said; die "nothing of the run came"; }
cut_line
for _ in $(seq 100); do if grep -q "is lost" said; then break; fi; sleep 0.2; done
grep -q "is lost" said || { cat said; die "a lost line is not told"; }
serve
for _ in $(seq 100); do if grep -q "there is back" said; then break; fi; sleep 0.2; done
grep -q "there is back" said || { cat said; die "the line did not come back"; }

say "Ctrl-C leaves it, and it goes on; --stop ends it with everything saved"
kill -TERM "$job"; wait "$job" || true; job=""
grep -q "the same command follows it" said || { cat said; die "leaving says nothing"; }
"${launch[@]}" --stop -- "${options[@]}" --output_path runs/long --max_steps 100000 >said 2>&1 && code=0 || code=$?
ls runs/long/*.safetensors >/dev/null || { cat said; die "a stopped run's weights are not here (code $code)"; }

say "a home folder is not sent, nor does a run of here lose its files"
cp "my pictures"/* "$work/there/"
if HOME=$work/there "${launch[@]}" -- "${options[@]}" --dataset_metadata_path "$work/there/metadata.csv" --output_path runs/home >said 2>&1; then die "a home folder went there"; fi
grep -q "would send all of" said || { cat said; die "a home folder is not refused"; }
if "${launch[@]}" -- "${options[@]}" --output_path runs/local --max_steps 3 >said 2>&1; then die "a run of here was taken over"; fi
grep -q "holds a run of this machine" said || { cat said; die "a run of here is not kept"; }

say "a run that ended is not stopped, whatever has its number now"
if "${launch[@]}" --stop -- "${options[@]}" --max_steps 15 >said 2>&1; then die "something was stopped"; fi
grep -q "no run goes on" said || { cat said; die "a run that ended is not told"; }

say "a full disk there"
mount -t tmpfs -o size=64k tmpfs "$work/there/small"
if "$burnish" launch --ssh there --remote_folder "$work/there/small" --remote_program "$burnish" -- "${options[@]}" --max_steps 3 >said 2>&1; then die "a full disk passed"; fi
grep -q "the disk is full" said || { cat said; die "a full disk is not told"; }

say "a program that is not there, a wrong key, a machine that is off"
if "$burnish" launch --ssh there --remote_program no-burnish -- "${options[@]}" --max_steps 3 >said 2>&1; then die "no program passed"; fi
grep -q "give --wheel" said || { cat said; die "a missing program is not told"; }
sed -i "s|keys/user$|keys/other|" "$work/keys/config"
if "${launch[@]}" -- "${options[@]}" --output_path runs/key --max_steps 3 >said 2>&1; then die "a wrong key passed"; fi
grep -q "Permission denied" said || { cat said; die "a wrong key is not told"; }
cut_line
if "${launch[@]}" -- "${options[@]}" --output_path runs/off --max_steps 3 >said 2>&1; then die "a machine that is off passed"; fi
grep -q "cannot be reached" said || { cat said; die "a machine that is off is not told"; }
cd "$repository"
say "runs there are as runs here"
