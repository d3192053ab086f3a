// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"fmt"
	"net"
	"strings"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/shell"
)

// status adds what the process says of itself, each problem with its remedy.
func (d *diagnosis) status(s *api.Status) {
	for _, p := range s.Problems {
		if p.Code == api.CodeUnserved {
			continue // each of them is a finding of its own
		}
		f := finding{Level: levelProblem, About: p.About, Text: p.Text}
		f.Remedy, f.Commands = remedy(s, &p)
		d.add(f)
	}
	for _, p := range s.Warnings {
		f := finding{Level: levelNote, About: p.About, Text: p.Text}
		f.Remedy, f.Commands = warningRemedy(s, &p)
		d.add(f)
	}
	for i := range s.Bridges {
		if b := &s.Bridges[i]; b.Serving {
			d.add(finding{Level: levelOK, About: b.Name, Text: fmt.Sprintf("it is served, guests: %d", b.Guests.Served)})
		}
	}
	for i := range s.Databases {
		if db := &s.Databases[i]; db.Synced {
			d.add(finding{Level: levelOK, About: db.Name, Text: "in sync with " + db.Endpoint})
		}
	}
}

// remedy returns what to do about a problem, and lines to paste.
func remedy(s *api.Status, p *api.Problem) (text string, commands []string) {
	switch p.Code {
	case api.CodeSwitch:
		if b := bridgeOf(s, p.About); b != nil {
			return connectionRemedy(b.Connection.Failure, b.Connection.Endpoint, "ovs-vswitchd", "ovs-vsctl list-br    # is "+b.Name+" among them?")
		}
	case api.CodeLocalDatabase:
		if b := bridgeOf(s, p.About); b != nil {
			return connectionRemedy(b.LocalDatabase.Failure, b.LocalDatabase.Endpoint, "ovsdb-server", "")
		}
	case api.CodeStalled:
		return "start ovsdb-server, and see why it has ended: ovs-vswitchd goes on by itself within 8 s of its return", []string{"systemctl start ovsdb-server", "journalctl -u ovsdb-server -n 20", "ovs-vsctl --timeout=5 show"}
	case api.CodeDatabase:
		for i := range s.Databases {
			if db := &s.Databases[i]; db.Name == p.About {
				return connectionRemedy(db.Failure, db.Endpoint, "the database's ovsdb-server", "")
			}
		}
	case api.CodeNoBridge:
		return "the name after ofpunt in the Corefile has to be that of a bridge, br-int with OVN", []string{"ovs-vsctl list-br"}
	case api.CodeOtherProcess:
		return "two processes serve one bridge, and the one that was started later has it: end one of them", []string{
			"pgrep -a puntdns",
			fmt.Sprintf("ovs-ofctl -O OpenFlow15 dump-flows %s cookie=0x70646e0000000000/0xffffff0000000000,table=200", shell.Word(p.About)),
		}
	case api.CodeLease:
		return "the switch is too busy, or stopped: queries go to their destination until it answers", []string{"ovs-appctl -t ovs-vswitchd upcall/show", "top -b -n 1 -p $(pidof ovs-vswitchd)"}
	case api.CodeBinding:
		return "the chassis that this process looks for has to be the one that ovn-controller has registered and bound the ports to; after a change of its name, delete the row of the former name by ovn-sbctl chassis-del", []string{
			"ovs-vsctl get Open_vSwitch . external_ids:system-id", "ovn-sbctl --columns=name,hostname list Chassis", "systemctl status ovn-controller",
		}
	case api.CodeNoAddress:
		return "give their DHCP options a dns_server, or their network a router, as address in ofpunt says; or name an address for all there", nil
	case api.CodeNoMeters:
		return "guests are served without a limit; `rate off` in ofpunt says that this is meant", []string{"ovs-ofctl -O OpenFlow15 meter-features " + shell.Word(p.About)}
	}
	return "", nil
}

// warningRemedy returns what to do about a warning, and lines to paste.
func warningRemedy(s *api.Status, p *api.Problem) (text string, commands []string) {
	switch p.Code {
	case api.CodeReload:
		return "mend the Corefile, and reload: puntdns would not start with it as it is", []string{"puntdns -check -conf " + shell.Word(s.Corefile.Path), "systemctl reload puntdns"}
	case api.CodeBadValues:
		return "mend the rows that have them; what else these say is used. The log has a line for each, with its row", []string{"journalctl -u puntdns -g skipped"}
	case api.CodeUnsaved:
		return "the folder of `snapshot` in ovnhosts has to be there, belong to the user of puntdns, and have room", nil
	case api.CodePolicyZone:
		return "mend the file, which is read again when it changes, or see that the primaries of the zone can be reached; or raise the limit that the text names", []string{"journalctl -u puntdns -g plugin/rpz -n 20"}
	case api.CodeUpstreams:
		return "outside names get SERVFAIL while none answers: see that this node has a way to these servers, that they permit its queries, or name others in forward", nil
	case api.CodeRefusedServers:
		return "have the network name a server that the node may ask for tenants, or permit it in ovnforward (`allow`, `ports`)", []string{"journalctl -u puntdns -g 'is not asked'"}
	}
	return "", nil
}

func bridgeOf(s *api.Status, name string) *api.Bridge {
	for i := range s.Bridges {
		if s.Bridges[i].Name == name {
			return &s.Bridges[i]
		}
	}
	return nil
}

// connectionRemedy returns what to do about a peer that can't be reached. look is a further line to
// paste for one that is missing, empty for none.
func connectionRemedy(f *api.Failure, endpoint, peer, look string) (text string, commands []string) {
	if f == nil {
		return "", nil
	}
	path, isUnix := strings.CutPrefix(endpoint, "unix:")
	if isUnix {
		commands = append(commands, "ls -l "+shell.Word(path))
	}
	if look != "" {
		commands = append(commands, look)
	}
	switch f.Cause {
	case api.CausePermission:
		return "the user of puntdns needs the permission to write to that socket: install deploy/puntdns.tmpfiles and deploy/puntdns-sockets.path, see docs/security.md",
			append(commands, "systemd-tmpfiles --create puntdns.conf")
	case api.CauseMissing:
		return peer + " does not run, or has its sockets in another folder: see docs/security.md", commands
	case api.CauseRefused:
		if isUnix {
			return peer + " has ended and left its socket", commands
		}
		return "nobody listens there: look at the port, and whether " + peer + " listens on that address", []string{"ovn-sbctl get-connection    # beside the database"}
	case api.CauseTimeout, api.CauseUnreachable:
		if isUnix {
			return peer + " hangs", commands
		}
		return "no packet comes back: a firewall between this node and the database, or no route", reach(endpoint)
	case api.CauseTLS:
		return "the certificates do not fit: those of both ends have to be of one CA and valid now, and the host name that of tls_servername if that is given",
			[]string{"date", "openssl s_client -connect " + shell.Word(hostPort(endpoint)) + " -showcerts </dev/null"}
	}
	return "", commands
}

// hostPort returns the address of an endpoint.
func hostPort(endpoint string) string {
	_, address, _ := strings.Cut(endpoint, ":")
	return address
}

// reach returns lines that show whether an endpoint can be reached.
func reach(endpoint string) []string {
	host, port, err := net.SplitHostPort(hostPort(endpoint))
	if err != nil {
		return nil
	}
	return []string{"ip route get " + host, "timeout 3 bash -c '</dev/tcp/" + host + "/" + port + "' && echo open", "nft list ruleset | grep -n " + port}
}
