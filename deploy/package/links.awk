# SPDX-License-Identifier: Apache-2.0
#
# Makes the links of a page those of a package: what is not in the package is at the repository, whose
# address the variable repository is, with a slash at its end. The variable page is the path of the page
# in the repository, and shipped has the paths that the package has beside it, as there, with a space
# around each.

# resolve returns the path that a link leads to from the folder of the page.
function resolve(link, parts, n, i, out) {
	n = split(folder link, parts, "/")
	out = ""
	for (i = 1; i <= n; i++) {
		if (parts[i] == "..") sub(/[^\/]*\/$/, "", out)
		else if (parts[i] != "." && parts[i] != "") out = out parts[i] (i < n ? "/" : "")
	}
	return out
}

BEGIN {
	folder = page
	sub(/[^\/]*$/, "", folder)
}
/^ *(~~~|```)/ { fenced = !fenced }
!fenced {
	out = ""
	while (match($0, /\]\([^)#:]+(#[^)]*)?\)/)) {
		link = substr($0, RSTART + 2, RLENGTH - 3)
		file = link
		sub(/#.*/, "", file)
		if (!index(shipped, " " resolve(file) " ")) link = repository resolve(file) substr(link, length(file) + 1)
		out = out substr($0, 1, RSTART + 1) link ")"
		$0 = substr($0, RSTART + RLENGTH)
	}
	$0 = out $0
}
{ print }
