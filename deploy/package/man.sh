#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# man.sh VERSION OUT writes the manual pages into a folder OUT/man: puntdns(8) from
# docs/puntdns.8.md, and puntdns-PLUGIN(7) from the README of each plugin, which the command MD2MAN
# translates; and puntctl(1) with a page for each of its commands, by which it describes itself, with
# the completions of shells, which the command GO makes. Their date is SOURCE_DATE_EPOCH.
set -eu

[ $# -eq 2 ] || {
	echo "usage: man.sh VERSION OUT" >&2
	exit 2
}
version=$1 out=$2
: "${GO:?the command of Go}" "${MD2MAN:?the command of go-md2man}" "${SOURCE_DATE_EPOCH:?seconds}"
cd "$(dirname "$0")/../.."
date=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%d)

# page NAME SECTION reads a page in Markdown. Its headings become those of manual pages. Links to the
# files of docs/ become the paths that these have in a package, and other links within the project
# their text.
page() {
	mkdir -p "$out/man/man$2"
	{
		printf '%% "%s" "%s" "%s" "puntdns %s" "puntdns"\n' "$(echo "$1" | tr '[:lower:]' '[:upper:]')" "$2" "$date" "$version"
		sed -E 's/^## .*/\U&/; s,\[docs/([^]]*)\]\([^)]*\),/usr/share/doc/puntdns/docs/\1,g; s/\[([^]]*)\]\(([^h)][^)]*|h[^t)][^)]*)\)/\1/g'
	} | $MD2MAN | awk -f deploy/package/tables.awk | gzip --no-name --best >"$out/man/man$2/$1.$2.gz"
}

sed 1d docs/puntdns.8.md | page puntdns 8
readmes="ofpunt/README.md $(echo plugin/*/README.md)"
plugins=" "
for readme in $readmes; do
	plugins="$plugins$(basename "$(dirname "$readme")") "
done
for readme in $readmes; do
	plugin=$(basename "$(dirname "$readme")")
	awk -v plugin="$plugin" -v own="$plugins" -f deploy/package/page.awk "$readme" | page "puntdns-$plugin" 7
done

own=$(mktemp -d)
trap 'rm -rf "$own"' EXIT
trap 'exit 1' HUP INT TERM
$GO -C deploy run ./man "$version" "$own"
gzip --no-name --best "$own"/*.1
install -D -m 644 --target-directory "$out/man/man1" "$own"/*.1.gz
install -D -m 644 "$own/puntctl.bash" "$out/bash-completion/completions/puntctl"
install -D -m 644 "$own/puntctl.fish" "$out/fish/vendor_completions.d/puntctl.fish"
install -D -m 644 "$own/_puntctl" "$out/zsh/vendor-completions/_puntctl"
