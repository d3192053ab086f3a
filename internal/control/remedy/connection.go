// SPDX-License-Identifier: Apache-2.0

package remedy

import (
	"net"
	"strings"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/shell"
)

const (
	socketDocs      = "docs/security.md#sockets"
	certificateDocs = "docs/security.md#certificates"
)

// connection returns the remedy by the cause of the failure. The commands of the code look for a unix socket
// that is missing or hangs.
func connection(r api.Code, c *Context) Remedy {
	out := Remedy{Docs: r.Docs}
	if c.Failure == nil {
		return out
	}
	path, isUnix := strings.CutPrefix(c.Endpoint, "unix:")
	if isUnix {
		out.Commands = append(out.Commands, "ls -l "+shell.Word(path))
	}
	out.Commands = append(out.Commands, fillIn(r.Commands, c)...)
	switch cause := c.Failure.Cause; {
	case cause == api.CausePermission:
		out.Docs = socketDocs
		out.Text = "the user of puntdns needs the permission to write to that socket: install deploy/puntdns.tmpfiles and deploy/puntdns-sockets.path, see docs/security.md"
		out.Commands = append(out.Commands, "systemd-tmpfiles --create puntdns.conf")
	case cause == api.CauseMissing:
		out.Docs = socketDocs
		out.Text = r.Peer + " does not run, or has its sockets in another folder: see docs/security.md"
	case cause == api.CauseRefused && isUnix:
		out.Text = r.Peer + " has ended and left its socket"
	case cause == api.CauseRefused:
		out.Text = "nothing listens there: look at the port, and whether " + r.Peer + " listens on that address"
		out.Commands = []string{"ovn-sbctl get-connection    # beside the database"}
	case (cause == api.CauseTimeout || cause == api.CauseUnreachable) && isUnix:
		out.Text = r.Peer + " hangs"
	case cause == api.CauseTimeout || cause == api.CauseUnreachable:
		out.Text = "no packet comes back: a firewall between this node and the database, or no route"
		out.Commands = reach(c.Endpoint)
	case cause == api.CauseVersion:
		out.Text = "have the bridge speak OpenFlow 1.5 or 1.3, too"
		out.Commands = fillIn([]string{"ovs-vsctl get Bridge {about} protocols", "ovs-vsctl add Bridge {about} protocols OpenFlow13 OpenFlow15"}, c)
	case cause == api.CauseTLS:
		out.Docs = certificateDocs
		out.Text = "the certificates do not fit: one CA has to have signed the certificates of both ends, and both have to be valid now; with tls_servername, the server's certificate has to have that host name"
		out.Commands = []string{"date", "openssl s_client -connect " + shell.Word(hostPort(c.Endpoint)) + " -showcerts </dev/null"}
	}
	return out
}

func hostPort(endpoint string) string {
	_, address, _ := strings.Cut(endpoint, ":")
	return address
}

// reach returns commands that show whether an endpoint can be reached.
func reach(endpoint string) []string {
	host, port, err := net.SplitHostPort(hostPort(endpoint))
	if err != nil {
		return nil
	}
	return []string{"ip route get " + host, "timeout 3 bash -c '</dev/tcp/" + host + "/" + port + "' && echo open", "nft list ruleset | grep -n " + port}
}
