// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/test/lab"
)

// daemonOptions are those of a resolver in a guest.
type daemonOptions struct {
	to        string // the server that it forwards all queries to
	validates bool
	except    string // a domain that it does not validate, or empty
	dir       string // a directory that it may write to; run sets it
}

// guestDaemon is a resolver that runs in a guest, at 127.0.0.1.
type guestDaemon struct {
	name    string // of its program, too
	running string // matches its log when it serves
	// command returns the arguments, and the text of the configuration file that FILE is to be.
	command func(root signedRoot, o daemonOptions) (args []string, config string)
}

var guestDaemons = []guestDaemon{
	{"unbound", "start of service", unboundCommand},
	{"named", `running\n`, namedCommand},
	{"dnsmasq", "started, version", dnsmasqCommand},
}

// run runs the daemon until the test ends.
func (d guestDaemon) run(t *testing.T, n *resolving, g *lab.Guest, o daemonOptions) {
	t.Helper()
	o.dir = t.TempDir()
	args, config := d.command(n.root, o)
	file := n.WriteFile(g.Name+"."+d.name+".conf", config)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "FILE", file)
	}
	p := g.Start(d.name, nil, append([]string{installed(t, n.Lab, d.name)}, args...)...)
	t.Cleanup(func() { _ = p.Stop() })
	if err := p.WaitLog(within(t, wait), d.running); err != nil {
		t.Fatal(err)
	}
}

// unboundCommand has what unbound.conf(5) has. By default unbound answers for home.arpa and the
// addresses of private networks itself.
func unboundCommand(root signedRoot, o daemonOptions) (args []string, config string) {
	modules, more := "iterator", ""
	if o.validates {
		modules = "validator iterator"
		more += fmt.Sprintf("\ttrust-anchor-file: %q\n", root.keyFile)
	}
	if o.except != "" {
		more += fmt.Sprintf("\tdomain-insecure: %q\n", o.except)
	}
	return []string{"-d", "-c", "FILE"}, fmt.Sprintf(`
server:
	chroot: ""
	username: ""
	directory: %q
	pidfile: ""
	use-syslog: no
	verbosity: 1
	interface: 127.0.0.1
	module-config: %q
	unblock-lan-zones: yes
	local-zone: "home.arpa." nodefault
%sremote-control:
	control-enable: no
forward-zone:
	name: "."
	forward-addr: %s
`, o.dir, modules, more, o.to)
}

// namedCommand has what the reference of BIND 9 has.
func namedCommand(root signedRoot, o daemonOptions) (args []string, config string) {
	validation, anchors, except := "no", "", ""
	if o.validates {
		validation = "yes"
		key := strings.SplitN(root.key, " ", 4)
		anchors = fmt.Sprintf("trust-anchors { \".\" static-key %s %q; };\n", strings.Join(key[:3], " "), key[3])
	}
	if o.except != "" {
		except = fmt.Sprintf("\tvalidate-except { %q; };\n", o.except)
	}
	return []string{"-g", "-n", "1", "-c", "FILE"}, fmt.Sprintf(`
options {
	directory %q;
	listen-on { 127.0.0.1; };
	listen-on-v6 { none; };
	pid-file none;
	session-keyfile none;
	forwarders { %s; };
	forward only;
	dnssec-validation %s;
%s};
controls { };
%s`, o.dir, o.to, validation, except, anchors)
}

// dnsmasqCommand has what dnsmasq(8) has. What is sent to a server for one domain is not
// validated.
func dnsmasqCommand(root signedRoot, o daemonOptions) (args []string, config string) {
	config = "no-resolv\nno-hosts\nuser=root\nlisten-address=127.0.0.1\nbind-interfaces\nserver=" + o.to + "\n"
	if o.validates {
		config += "dnssec\ntrust-anchor=.," + root.ds + "\n"
	}
	if o.except != "" {
		config += "server=/" + o.except + "/" + o.to + "\n"
	}
	return []string{"--keep-in-foreground", "--log-facility=-", "--pid-file=", "--conf-file=FILE"}, config
}
