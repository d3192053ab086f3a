// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/puntdns/puntdns/test/lab"
)

const (
	outsideNet = "203.0.113.0/24"
	// closedFor is how long a connection is tried that the switch is to refuse.
	closedFor = 500 * time.Millisecond
)

// showEgress closes a guest, prints connections and reports whether all are as expected.
func (d *demo) showEgress(out io.Writer) bool {
	right := true
	run := func(command string) {
		fmt.Fprintln(out, "$ "+command)
		if err := d.sh(out, command); err != nil {
			fmt.Fprintln(out, err)
			right = false
		}
	}
	run("ovn-nbctl --wait=hv pg-add sandboxes sandbox-vm")
	run("puntctl egress init sandboxes --existing | sh")
	d.l.Sync()
	right = d.connect(out, served, "+time=10") && right
	fmt.Fprintln(out)
	run("puntctl egress list sandbox-vm")
	fmt.Fprintln(out, "\n$ kill -9 $(pidof puntdns)")
	_ = d.puntdns.Kill() // it ends by a signal, which is an error
	right = d.connect(out, killed, "+time=1", "+tries=1") && right
	fmt.Fprintln(out, "\n$ puntdns -conf Corefile &")
	d.serve()
	return d.connect(out, again, "+time=10") && right
}

const demoPolicy = `    egress {
        policy ofpunt/switch sandbox {
            allow *.pypi.example:443/tcp
        }
    }
`

// startEgress builds a network with two guests, and servers outside at each address of outsideNet.
func startEgress(t *lab.Program, out io.Writer, binary string) *demo {
	fmt.Fprintln(out, "Starting OVN with sandbox-vm, its neighbour, and servers outside ...")
	l := lab.New(t, lab.Options{})
	d := &demo{t: t, l: l}
	l.AddSwitch("sandbox")
	l.AddSwitch("out")
	l.AddRouter("router",
		lab.RouterPort{Switch: "sandbox", MAC: "02:00:00:00:01:01", Networks: []string{"10.0.0.1/24"}},
		lab.RouterPort{Switch: "out", MAC: "02:00:00:00:01:02", Networks: []string{"192.0.2.254/24"}})
	guest := func(name, sw, mac, address, gateway string) *lab.Guest {
		return l.Node.AddGuest(lab.Guest{Name: name, Switch: sw, MAC: mac, Addrs: lab.Prefixes(address), Gateway4: lab.Addr(gateway), PortSecurity: sw == "sandbox"})
	}
	d.guests = []*lab.Guest{
		guest("sandbox-vm", "sandbox", "02:00:00:00:00:11", "10.0.0.11/24", "10.0.0.1"),
		guest("neighbour", "sandbox", "02:00:00:00:00:12", "10.0.0.12/24", "10.0.0.1"),
	}
	outside := guest("outside", "out", "02:00:00:00:00:31", "192.0.2.1/24", "192.0.2.254")
	if _, err := outside.Exec(context.Background(), "ip", "route", "add", "local", outsideNet, "dev", "lo"); err != nil {
		t.Fatalf("demo: %v", err)
	}
	l.NBCTL("lr-route-add", "router", outsideNet, "192.0.2.1")
	for _, port := range []string{"80", "443"} {
		outside.AcceptTCP("0.0.0.0:" + port)
	}
	d.upstream = l.Upstream("files.pypi.example. 300 IN A 203.0.113.10", "new.pypi.example. 300 IN A 203.0.113.11", "other.example. 300 IN A 203.0.113.66")
	l.Sync()
	d.launch(out, binary, fmt.Sprintf(`. {
    ofpunt %s {
        openflow %s
        ovsdb %s
        control unix:%s
    }
    errors
    prometheus %s
    ready %s
    ovnhosts {
        southbound %s
        fallthrough
    }
%s    cache 30
    forward . %s
}
`, lab.Bridge, l.Node.OpenFlow, l.Node.OVSDB, d.socket(), metricsAddr, readyAddr, l.SB, demoPolicy, d.upstream.Addr))
	fmt.Fprint(out, "\nThe policy in its Corefile:\n\n", demoPolicy, "\n")
	return d
}

// try is a connection of a guest.
type try struct {
	guest int
	// name is resolved before, empty for none.
	name, to string
	says     string
	open     bool
}

// Connections while puntdns runs, after it was killed, and once it runs again.
var (
	served = []try{
		{0, "", "203.0.113.10:443", "without a query before", false},
		{0, "files.pypi.example", "203.0.113.10:443", "the policy allows the name", true},
		{0, "", "203.0.113.10:80", "another port", false},
		{0, "other.example", "203.0.113.66:443", "no policy allows the name", false},
		{1, "", "203.0.113.66:443", "the guest is not in the group", true},
	}
	killed = []try{
		{0, "", "203.0.113.10:443", "opened before", true},
		{0, "new.pypi.example", "203.0.113.11:443", "the name gets no answer", false},
	}
	again = []try{
		{0, "", "203.0.113.10:443", "still open", true},
		{0, "new.pypi.example", "203.0.113.11:443", "the name has an answer", true},
	}
)

func (d *demo) connect(out io.Writer, all []try, options ...string) bool {
	right := true
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nGUEST\tRESOLVES\tANSWER\tCONNECTS TO\tRESULT\tWHY\t")
	for _, t := range all {
		g, answer := d.guests[t.guest], ""
		if t.name != "" {
			if answer = strings.Join(g.Dig(append(options, "@"+resolver4, t.name)...).Values(), " "); answer == "" {
				answer = "none"
			}
		}
		limit := closedFor
		if t.open {
			limit = lab.Scaled(10 * time.Second)
		}
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		c, err := g.Dial(ctx, "tcp", t.to)
		cancel()
		result := "timed out"
		switch {
		case err == nil:
			c.Close()
			result = "connected"
		case !errors.Is(err, context.DeadlineExceeded) && !os.IsTimeout(err):
			result = err.Error()
		}
		verdict := "ok"
		if t.open != (err == nil) {
			verdict, right = "WRONG", false
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", g.Name, t.name, answer, t.to, result, t.says, verdict)
	}
	return w.Flush() == nil && right
}
