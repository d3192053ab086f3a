// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/test/lab"
)

const verdictCorefile = `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        lease $LEASE
        control unix:SOCKET
        limit ofpunt/port red-vm2 {
            rate 1 5
        }
        limit ofpunt/port red-vm3 {
            max_concurrent 1
        }
    }
    ready ` + readyAddr + ` {
        monitor continuously
    }
    prometheus ` + metricsAddr + `
    ovnhosts {
        southbound $SB
        northbound $NB
        fallthrough
    }
    egress {
        policy ofpunt/port red-vm4 {
            allow www.example.org
        }
    }
    forward . UPSTREAM
}
`

// planted is a fault, and the codes by which the commands report it.
type planted struct {
	name string
	// plant plants the fault, and returns what mends it. It is called once.
	plant func(x *explained) (mend func())
	// guest is the port that explain and doctor are asked about.
	guest string
	// explain, doctor, status and guests are the codes that each command reports, of status problems and
	// warnings alike. No other code may be there.
	explain, doctor, status, guests []string
	// notes are the codes that leave explain and doctor well. Of guests they are reported behind the others.
	notes []string
}

// Each command reports a planted fault by its code, and no other fault: explain and doctor are never well, and
// all are well again once the fault is mended.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	n := newOverlap(t)
	extra := map[string]*lab.Guest{"red-vm2": aclGuest(n.Lab, "red", 1, 2), "red-vm3": aclGuest(n.Lab, "red", 1, 3), "red-vm4": aclGuest(n.Lab, "red", 1, 4)}
	n.Sync()
	x := &explained{overlap: n, operator: &operator{t, n.Lab, filepath.Join(n.Dir, "control.sock")}, upstream: n.Upstream("www.example.org. 60 IN A 192.0.2.5")}
	x.closes("red-vm4")
	x.server = serve(t, n.Lab, corefile(n.Lab, replaceAll(verdictCorefile, "SOCKET", x.socket, "UPSTREAM", x.upstream.Addr)))
	acl := func(match string) func(x *explained) func() {
		return func(x *explained) func() {
			x.NBCTL("acl-add", "red", "from-lport", "2000", match, "drop")
			x.Sync()
			return func() {
				x.NBCTL("acl-del", "red", "from-lport", "2000", match)
				x.Sync()
			}
		}
	}
	for _, f := range []planted{
		{
			name: "the link is down", guest: "red-vm1",
			plant: func(x *explained) func() {
				link := func(state string) { x.ip(t, "link", "set", x.red.NodePort, state) }
				link("down")
				return func() { link("up") }
			},
			explain: []string{api.CodeLinkDown}, doctor: []string{api.CodeLinkDown}, guests: []string{api.CodeLinkDown},
		},
		{
			name: "the port sends nothing", guest: "red-vm1", plant: portConfig("no-forward", "forward"),
			explain: []string{api.CodePortConfig}, doctor: []string{api.CodePortConfig}, guests: []string{api.CodePortConfig},
		},
		{
			name: "the port receives nothing", guest: "red-vm1", plant: portConfig("no-receive", "receive"),
			explain: []string{api.CodeNotPunted, api.CodePortConfig}, doctor: []string{api.CodePortConfig, api.CodeNotPunted}, guests: []string{api.CodePortConfig},
		},
		{
			name: "another port has the resolver address", guest: "red-vm1",
			plant: func(x *explained) func() {
				x.NBCTL("lsp-add", "red", "red-thief", "--", "lsp-set-addresses", "red-thief", "02:00:00:00:01:99 "+resolver4)
				x.Sync()
				return func() {
					x.NBCTL("lsp-del", "red-thief")
					x.Sync()
				}
			},
			explain: []string{api.CodeAddressTaken}, doctor: []string{api.CodeAddressTaken}, guests: []string{api.CodeAddressTaken},
		},
		{
			name: "the interface is of another guest", guest: "red-vm1",
			plant: func(x *explained) func() {
				x.Node.VSCTL("set", "Interface", x.red.NodePort, `external_ids:attached-mac="02:00:00:00:01:77"`)
				return func() { x.Node.VSCTL("remove", "Interface", x.red.NodePort, "external_ids", "attached-mac") }
			},
			notes: []string{api.CodeAttachedMAC},
		},
		{
			name: "the flows of the bridge are deleted", guest: "red-vm1",
			plant: func(x *explained) func() {
				x.Node.OFCTL("del-flows", lab.Bridge)
				return func() { x.Node.Restart("ovn-controller") }
			},
			explain: []string{api.CodeNotPunted, api.CodeNoFlows, api.CodeNotServed}, doctor: []string{api.CodeNotServed, api.CodeNoFlows, api.CodeNotPunted},
			status: []string{api.CodeNotServed}, guests: []string{api.CodeNoFlows},
		},
		{
			name: "an ACL on TCP", guest: "red-vm1", plant: acl("tcp.dst == 53"),
			doctor: []string{api.CodeNotPunted},
		},
		{
			name: "an ACL on IPv6", guest: "red-vm1", plant: acl("ip6 && udp.dst == 53"),
			doctor: []string{api.CodeNotPunted},
		},
		{
			name: "an egress policy without ACLs", guest: "red-vm4",
			plant: func(x *explained) func() {
				x.member("remove", "red-vm4")
				return func() { x.member("add", "red-vm4") }
			},
			explain: []string{api.CodeEgressOpen}, doctor: []string{api.CodeEgressOpen}, status: []string{api.CodeEgressOpen}, guests: []string{api.CodeEgressOpen},
		},
		{
			name: "an ACL above the ACLs of egress", guest: "red-vm4",
			plant: func(x *explained) func() {
				x.NBCTL("acl-add", "red", "from-lport", "32767", "ip4 && tcp", "allow-related")
				x.Sync()
				return func() {
					x.NBCTL("acl-del", "red", "from-lport", "32767", "ip4 && tcp")
					x.Sync()
				}
			},
			doctor: []string{api.CodeEgressOpen},
		},
		{
			name: "ACLs for another bit", guest: "red-vm4",
			plant: func(x *explained) func() {
				if _, err := exchange(within(t, wait), extra["red-vm4"], resolver4, "www.example.org.", dns.TypeA); err != nil {
					x.t.Fatal(err)
				}
				x.NBCTL("pg-add", "other", "red-vm4", "--", "--type=port-group", "acl-add", "other", "from-lport", "32766", "inport == @other && ip4 && pkt.mark[20] == 0", "drop")
				x.Sync()
				return func() {
					x.NBCTL("pg-del", "other")
					x.Sync()
				}
			},
			doctor: []string{api.CodeEgressBlocked},
		},
		{
			name: "the ACLs of egress without a policy", guest: "red-vm1",
			plant: func(x *explained) func() {
				x.member("add", "red-vm1")
				return func() { x.member("remove", "red-vm1") }
			},
			notes: []string{api.CodeEgressWithoutPolicy},
		},
		{
			name: "over the rate", guest: "red-vm2",
			plant: func(*explained) func() {
				var all sync.WaitGroup
				for range 50 {
					all.Go(func() {
						_, _ = exchange(within(t, time.Second), extra["red-vm2"], resolver4, "db.internal.", dns.TypeA)
					})
				}
				all.Wait()
				return nil
			},
			explain: []string{api.CodeOverLimit}, doctor: []string{api.CodeOverLimit}, status: []string{api.CodeOverLimit}, guests: []string{api.CodeOverLimit},
		},
		{
			name: "over max_concurrent", guest: "red-vm3",
			plant: func(x *explained) func() {
				// The upstream holds one query for as long as the other ones are refused.
				held := make(chan struct{})
				x.upstream.SetHandler(dns.HandlerFunc(func(dns.ResponseWriter, *dns.Msg) { <-held }))
				defer x.upstream.SetHandler(nil)
				defer close(held)
				errs := make(chan error)
				for i := range 3 {
					go func() {
						_, err := exchange(within(t, wait), extra["red-vm3"], resolver4, fmt.Sprintf("held%d.example.org.", i), dns.TypeA)
						errs <- err
					}()
				}
				<-errs
				<-errs
				return nil
			},
			explain: []string{api.CodeOverLimit}, doctor: []string{api.CodeOverLimit}, status: []string{api.CodeOverLimit}, guests: []string{api.CodeOverLimit},
		},
	} {
		t.Run(f.name, func(t *testing.T) {
			of := *x
			of.operator = &operator{t, n.Lab, x.socket}
			of.report(t, &f)
		})
	}
	x.server.endWell()

	// From the start, a chassis that Southbound lacks is the cause, and not the guest's interface.
	start(t, n.Lab, corefile(n.Lab, replaceAll(verdictCorefile, "control unix:SOCKET", "chassis hv-none\n        control unix:"+x.socket, "UPSTREAM", x.upstream.Addr)))
	x.shows("the chassis", func(st *api.Status) bool { return slices.Equal(codesOf(st.Problems), []string{api.CodeBinding}) })
	x.Eventually("the chassis as the cause", func() error {
		e, status := x.explain("red-vm1", "db.internal")
		return errorUnless(status == 1 && slices.Equal(codesOf(e.Findings), []string{api.CodeBinding}), "exit status %d, %+v", status, e.Findings)
	})
}

// closes makes the port group of `puntctl egress init` with one port.
func (x *explained) closes(port string) {
	script, errs, status := x.run("egress", "init", "closed", "--resolver", resolver4, "--resolver", resolver6)
	if status != 0 {
		x.t.Fatalf("exit status %d: %s", status, errs)
	}
	if out, err := x.Node.Exec(within(x.t, wait), "env", "OVN_NB_DB="+x.NB, "sh", "-euc", script); err != nil {
		x.t.Fatalf("%v: %s", err, out)
	}
	x.member("add", port)
}

// member adds a port to the port group of closes, or removes it.
func (x *explained) member(verb, port string) {
	x.NBCTL(verb, "Port_Group", "closed", "ports", x.NBCTL("get", "Logical_Switch_Port", port, "_uuid"))
	x.Sync()
}

// portConfig sets the config of the OpenFlow port of red-vm1, and takes it back.
func portConfig(set, back string) func(x *explained) func() {
	return func(x *explained) func() {
		x.Node.OFCTL("mod-port", lab.Bridge, x.red.NodePort, set)
		return func() { x.Node.OFCTL("mod-port", lab.Bridge, x.red.NodePort, back) }
	}
}

// ip runs ip(8) on the node.
func (x *explained) ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := x.Node.Exec(within(t, wait), append([]string{"ip"}, args...)...); err != nil {
		t.Fatalf("ip %v: %v: %s", args, err, out)
	}
}

// report plants a fault, waits for its codes, and for none once it is mended.
func (x *explained) report(t *testing.T, f *planted) {
	mend := f.plant(x)
	x.Eventually("the codes", func() error { return x.reports(f) })
	out, _, _ := x.run("doctor", f.guest, "--vswitchd", x.Node.AppCtlTarget("ovs-vswitchd"))
	t.Logf("puntctl doctor %s\n%s", f.guest, out)
	if mend == nil {
		return
	}
	mend()
	x.Eventually("well again", func() error { return x.reports(&planted{guest: f.guest}) })
}

// reports returns an error unless each command reports the codes of a fault, and no other.
func (x *explained) reports(f *planted) error {
	vswitchd := []string{"--vswitchd", x.Node.AppCtlTarget("ovs-vswitchd")}
	var e api.Explanation
	var d struct {
		Well     bool `json:"well"`
		Findings []struct {
			Level string `json:"level"`
			Code  string `json:"code"`
		} `json:"findings"`
	}
	var s api.Status
	var all api.Guests
	for _, check := range []struct {
		want  []string
		args  []string
		into  any
		codes func() []string
		exits bool // with 1 for a problem
	}{
		{slices.Concat(f.explain, f.notes), append([]string{"explain", f.guest, "db.internal"}, vswitchd...), &e, func() []string { return codesOf(e.Findings) }, true},
		{slices.Concat(f.doctor, f.notes), append([]string{"doctor", f.guest}, vswitchd...), &d, func() (codes []string) {
			for _, found := range d.Findings {
				if found.Level == "problem" || slices.Contains(f.notes, found.Code) {
					codes = append(codes, found.Code)
				}
			}
			return slices.Compact(codes) // one for each flow that drops
		}, true},
		{f.status, []string{"status"}, &s, func() []string { return codesOf(slices.Concat(s.Problems, s.Warnings)) }, false},
		{slices.Concat(f.guests, f.notes), []string{"guests", f.guest}, &all, func() []string { return codesOf(all.Guests[0].Problems) }, false},
	} {
		status := x.ask(check.into, check.args...)
		if got := check.codes(); !slices.Equal(got, check.want) || check.exits && status != min(len(check.want), 1)-min(len(f.notes), 1) {
			return fmt.Errorf("%v: exit status %d, %q, want %q", check.args, status, got, check.want)
		}
	}
	return nil
}

func codesOf(all []api.Problem) (codes []string) {
	for _, p := range all {
		codes = append(codes, p.Code)
	}
	return codes
}
