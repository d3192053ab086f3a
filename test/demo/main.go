// SPDX-License-Identifier: Apache-2.0

// Demo shows puntdns on a real OVN: two tenants whose addresses overlap ask the
// same resolver address the same questions and get their own answers, or a guest
// reaches what its policy of *egress* allows. Its exit status is 0 only if every
// answer is right.
//
// With KEEP=1 in the environment, or anything but 0, everything stays up, held by a process in the
// background, and the demo prints how to use and end it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/puntdns/puntdns/test/lab"
)

func main() {
	binary := flag.String("puntdns", "bin/puntdns", "`path` of the binary to show")
	recording := flag.String("record", "", "`file` for what the demo prints, and for commands of an operator behind it")
	egress := flag.Bool("egress", false, "show egress by name")
	flag.Parse()
	s := scenario{start, (*demo).show, (*demo).tenantUsage}
	if *egress {
		s = scenario{startEgress, (*demo).showEgress, (*demo).egressUsage}
	}
	switch {
	case *egress && *recording != "":
		os.Exit(fail(errors.New("-record is for the demo without -egress")))
	case *recording != "":
		os.Exit(record(*binary, *recording))
	case !isOn(os.Getenv("KEEP")):
		os.Exit(s.run(*binary))
	case os.Getenv(holderEnv) == "":
		os.Exit(runInBackground())
	default:
		s.hold(*binary)
	}
}

// scenario is what a demo shows.
type scenario struct {
	// start builds the lab and returns when puntdns is ready.
	start func(t *lab.Program, out io.Writer, binary string) *demo
	// show reports whether all answers are right.
	show func(d *demo, out io.Writer) bool
	// usage prints commands for a lab that stays up.
	usage func(d *demo, p func(format string, args ...any))
}

// isOn reports whether a variable of the environment switches something on.
func isOn(value string) bool { return value != "" && value != "0" }

// run shows everything, ends it and returns the exit status.
func (s scenario) run(binary string) int {
	t := new(lab.Program)
	defer t.End()
	if d := s.start(t, os.Stdout, binary); !d.result(os.Stdout, s.show) {
		return 1
	}
	return 0
}

// result shows everything, and whether it is right.
func (d *demo) result(out io.Writer, show func(*demo, io.Writer) bool) bool {
	if !show(d, out) {
		fmt.Fprintln(out, "\nAt least one answer is WRONG. The log of puntdns:")
		fmt.Fprint(out, d.puntdns.Log())
		return false
	}
	fmt.Fprintln(out, "\nEvery answer is right.")
	return true
}

// demo is the lab with puntdns in it.
type demo struct {
	t        *lab.Program
	l        *lab.Lab
	guests   []*lab.Guest // one of each tenant, with the same MAC and addresses
	rows     []string     // UUID of the DNS row of each tenant
	upstream *lab.DNSServer
	binary   string
	puntdns  *lab.Process
}

// Addresses in the node's namespace.
const (
	readyAddr   = "127.0.0.1:8181"
	metricsAddr = "127.0.0.1:9153"
)

// start is for the tenants.
func start(t *lab.Program, out io.Writer, given string) *demo {
	began := time.Now()
	fmt.Fprintln(out, "Starting OVN with two tenants, red and blue ...")
	l := lab.New(t, lab.Options{})
	d := &demo{t: t, l: l}
	for _, tn := range tenants {
		vm, row := tn.build(l)
		d.guests = append(d.guests, vm)
		d.rows = append(d.rows, row)
	}
	d.upstream = l.Upstream(
		"www.example.org. 300 IN A 192.0.2.80",
		"www.example.org. 300 IN AAAA 2001:db8::80")
	l.Sync()
	fmt.Fprintf(out, "OVN is up after %.1f s, on the datapath %s. ", time.Since(began).Seconds(), l.Datapath)
	d.launch(out, given, d.corefile())
	fmt.Fprintf(out, "Ready after %.1f s.\n\n", time.Since(began).Seconds())
	return d
}

// launch starts puntdns and waits until it is ready.
func (d *demo) launch(out io.Writer, given, corefile string) {
	binary, err := filepath.Abs(given)
	if err != nil {
		d.t.Fatalf("demo: %v", err)
	}
	fmt.Fprintf(out, "Starting %s on %s ...\n", given, lab.Bridge)
	d.binary = binary
	d.l.WriteFile("Corefile", corefile)
	d.serve()
}

// serve starts puntdns with the Corefile there is.
func (d *demo) serve() {
	d.puntdns = d.l.Node.Start("puntdns", nil, d.binary, "-conf", filepath.Join(d.l.Dir, "Corefile"))
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	go func() {
		<-d.puntdns.Done()
		cancel()
	}()
	if err := d.l.Node.WaitHTTP(ctx, "http://"+readyAddr+"/ready", 200); err != nil {
		d.t.Fatalf("puntdns does not get ready: %v\n%s", err, d.puntdns.Log())
	}
}

// socket is the path of the control socket.
func (d *demo) socket() string { return filepath.Join(d.l.Dir, "control.sock") }

// corefile is the configuration of puntdns. The log is where the demo
// learns who has answered.
func (d *demo) corefile() string {
	return fmt.Sprintf(`. {
    ofpunt %s {
        openflow %s
        ovsdb %s
        control unix:%s
    }
    metadata
    errors
    log . "demo {>id} {/ofpunt/port} {name} {type} {rcode} {/ovnhosts/answer}"
    prometheus %s
    ready %s {
        monitor continuously
    }
    ovnhosts {
        southbound %s
        northbound %s
        domain internal
        fallthrough example.org
    }
    cache 30
    forward . %s
}
`, lab.Bridge, d.l.Node.OpenFlow, d.l.Node.OVSDB, d.socket(), metricsAddr, readyAddr, d.l.SB, d.l.NB, d.upstream.Addr)
}
