#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# man.sh VERSION OUT writes the manual pages into a folder OUT/man: puntdns(8) from
# docs/puntdns.8.md, and puntdns-PLUGIN(7) from the README of each plugin, which the command MD2MAN
# translates; and those that puntctl describes itself by, with the completions of shells, which
# the command GO makes. Their date is SOURCE_DATE_EPOCH.
set -eu

[ $# -eq 2 ] || {
	echo "usage: man.sh VERSION OUT" >&2
	exit 2
}
version=$1 out=$2
: "${GO:?the command of Go}" "${MD2MAN:?the command of go-md2man}" "${SOURCE_DATE_EPOCH:?seconds}"
cd "$(dirname "$0")/../.."
date=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%d)

# page NAME SECTION FILE replaces the title of a Markdown file by that of a manual page. Links
# within the project become their text: the files of docs/ are in /usr/share/doc/puntdns.
page() {
	mkdir -p "$out/man/man$2"
	{
		printf '%% "%s" "%s" "%s" "puntdns %s" "puntdns"\n' "$(echo "$1" | tr '[:lower:]' '[:upper:]')" "$2" "$date" "$version"
		sed -E '1d; s/\[([^]]*)\]\(([^h)][^)]*|h[^t)][^)]*)\)/\1/g' "$3"
	} | $MD2MAN | awk -f deploy/package/tables.awk | gzip --no-name --best >"$out/man/man$2/$1.$2.gz"
}

page puntdns 8 docs/puntdns.8.md
page puntdns-ofpunt 7 ofpunt/README.md
for readme in plugin/*/README.md; do
	plugin=${readme#plugin/}
	page "puntdns-${plugin%/README.md}" 7 "$readme"
done

own=$(mktemp -d)
trap 'rm -rf "$own"' EXIT
trap 'exit 1' HUP INT TERM
$GO run ./internal/puntctl/man "$version" "$own"
gzip --no-name --best "$own"/*.8
install -D -m 644 --target-directory "$out/man/man8" "$own"/*.8.gz
install -D -m 644 "$own/puntctl.bash" "$out/bash-completion/completions/puntctl"
install -D -m 644 "$own/puntctl.fish" "$out/fish/vendor_completions.d/puntctl.fish"
install -D -m 644 "$own/_puntctl" "$out/zsh/vendor-completions/_puntctl"
