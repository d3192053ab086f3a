#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# package.sh FORMAT ARCH VERSION FOLDER makes a package and prints its path.
#
#   FORMAT   deb or rpm
#   ARCH     as Go calls it: amd64 or arm64
#   VERSION  as git describe prints it
#   FOLDER   gets the package, and has what is not in the source: the program in ARCH/, what
#            deploy/licences has made of it in licences/ARCH/, and in share/ what has its place
#            below /usr/share, such as manual pages
#
# NFPM is the command that packs. The same commit gives the same bytes: all times in the package
# are SOURCE_DATE_EPOCH, in seconds.
set -eu

case $#-${1-} in
4-deb | 4-rpm) ;;
*)
	echo "usage: package.sh deb|rpm ARCH VERSION FOLDER" >&2
	exit 2
	;;
esac
format=$1 arch=$2 describe=$3 folder=$4
here=$(cd "$(dirname "$0")" && pwd)
top=$here/../..
: "${NFPM:?the command of nfpm}" "${SOURCE_DATE_EPOCH:?seconds}"
export SOURCE_DATE_EPOCH LC_ALL=C

version=$("$here/version.sh" "$describe")
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
trap 'exit 1' HUP INT TERM
umask 022

# put MODE FILE PATH
put() {
	install -D -m "$1" "$2" "$root$3"
}

put 755 "$folder/$arch/puntdns" /usr/bin/puntdns
ln -s puntdns "$root/usr/bin/puntctl"
licences=$folder/licences/$arch
# The comment above the unit is for an installation by hand.
sed '1,/^\[Unit\]$/ { /^\[Unit\]$/ !d }; s,/usr/local/bin/,/usr/bin/,' "$top/deploy/puntdns.service" >"$root/unit"
put 644 "$root/unit" /usr/lib/systemd/system/puntdns.service
rm "$root/unit"
put 644 "$top/deploy/puntdns-sockets.path" /usr/lib/systemd/system/puntdns-sockets.path
put 644 "$top/deploy/puntdns-sockets.service" /usr/lib/systemd/system/puntdns-sockets.service
put 644 "$top/deploy/puntdns.sysusers" /usr/lib/sysusers.d/puntdns.conf
put 644 "$top/deploy/puntdns.tmpfiles" /usr/lib/tmpfiles.d/puntdns.conf
put 755 "$here/restart" /usr/libexec/puntdns/restart
put 755 "$here/revoke" /usr/libexec/puntdns/revoke
install -d -m 755 "$root/etc/puntdns"

doc=/usr/share/doc/puntdns
put 644 "$top/Corefile.example" $doc/Corefile.example
pages=$(cd "$top" && echo README.md CHANGELOG.md ofpunt/README.md plugin/*/README.md docs/*.md)
pictures=$(cd "$top" && echo docs/*.svg)
for page in $pages; do
	awk -v page="$page" -v shipped=" $pages $pictures Corefile.example " -v repository=https://github.com/puntdns/puntdns/blob/main/ \
		-f "$here/links.awk" "$top/$page" >"$root/page"
	put 644 "$root/page" "$doc/$page"
done
rm "$root/page"
for picture in $pictures; do
	put 644 "$top/$picture" "$doc/$picture"
done
put 644 "$top/deploy/prometheus/puntdns.rules.yaml" $doc/prometheus/puntdns.rules.yaml
for board in "$top"/deploy/grafana/*.json; do
	put 644 "$board" "$doc/grafana/${board##*/}"
done
case $format in
deb)
	cat "$here/deb/copyright" "$licences/THIRD-PARTY-LICENSES.debian" >"$root/copyright"
	put 644 "$root/copyright" $doc/copyright
	rm "$root/copyright"
	put 644 "$here/deb/lintian-overrides" /usr/share/lintian/overrides/puntdns
	# The history is that of the repository; dpkg's tools want a file of this form.
	cat >"$root/changelog" <<-EOF
		puntdns ($version) stable; urgency=medium

		  * https://github.com/puntdns/puntdns

		 -- $(sed -n 's/^maintainer: //p' "$here/nfpm.yaml")  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
	EOF
	gzip --no-name --best "$root/changelog"
	put 644 "$root/changelog.gz" $doc/changelog.gz
	rm "$root/changelog.gz"
	;;
rpm)
	for text in "$top/LICENSE" "$licences/THIRD-PARTY-LICENSES"; do
		put 644 "$text" "/usr/share/licenses/puntdns/${text##*/}"
	done
	;;
esac
cp -R "$folder/share/." "$root/usr/share/"
# Debian's zsh has another folder for what packages bring.
if [ "$format" = rpm ] && [ -d "$root/usr/share/zsh" ]; then
	mv "$root/usr/share/zsh/vendor-completions" "$root/usr/share/zsh/site-functions"
fi
# mark tells rpm which files are documentation, and which are licences. For a deb there is no mark.
mark() {
	if [ "$format" = rpm ]; then
		sed -e '/dst: "\/usr\/share\/\(doc\|man\)\// s/}}$/}, type: doc}/' -e '/dst: "\/usr\/share\/licenses\// s/}}$/}, type: license}/'
	else
		cat
	fi
}

chmod -R u=rwX,go=rX "$root"

time=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
recipe=$(mktemp)
trap 'rm -rf "$root" "$recipe"' EXIT
{
	[ "$format" = deb ] || echo "license: $(cat "$licences/SPDX")"
	sed "s,@SCRIPTS@,$here,; s,@TIME@,$time,; s,@ARCH@,$arch,; s,@VERSION@,$version," "$here/nfpm.yaml"
	# The folders that are the package's own, and the files one by one: rpm lets no package
	# change the folders of others. That of fish(1) may have no other owner, and rpm would leave it.
	echo "contents:"
	[ "$format" = deb ] || echo '  - {dst: "/usr/share/fish/vendor_completions.d", type: dir, file_info: {mode: 0755}}'
	find "$root" -type d -regex "$root/.*/puntdns\(/.*\)?" -printf '  - {dst: "/%P", type: dir, file_info: {mode: 0755}}\n' | sort
	find "$root" -type f -printf '  - {src: "%p", dst: "/%P", file_info: {mode: 0%m}}\n' | sort | mark
	find "$root" -type l -printf '  - {src: "%l", dst: "/%P", type: symlink, file_info: {mode: 0777}}\n' | sort
} >"$recipe"
case $format-$arch in
rpm-amd64) name=puntdns-$version-1.x86_64.rpm ;;
rpm-arm64) name=puntdns-$version-1.aarch64.rpm ;;
*) name=puntdns_${version}_$arch.deb ;;
esac
$NFPM package --config "$recipe" --packager "$format" --target "$folder/$name" >&2
echo "$folder/$name"
