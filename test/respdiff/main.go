// SPDX-License-Identifier: Apache-2.0

// The program respdiff asks a stock CoreDNS, Unbound and puntdns the same questions, in the way of CZ.NIC's respdiff,
// and prints how the answers of puntdns differ, with the reason for each difference. It fails if a difference has no
// reason in reasons, and if a reason explains no difference.
//
// All three serve the zone example. and forward to the same upstream. puntdns has the zone as a DNS row and is asked by a
// guest on a real OVN; the others have it as a zone file and listen on loopback of the node.
//
// Run it as root in the root of the repository: make respdiff. It takes a minute.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/puntdns/puntdns/test/lab"
)

func main() {
	puntdns := flag.String("puntdns", "bin/puntdns", "`path` of puntdns")
	coredns := flag.String("coredns", "", "`path` of a stock CoreDNS")
	all := flag.Bool("all", false, "print each difference that has a reason, not a line for each reason")
	flag.Parse()
	if err := run(*puntdns, *coredns, *all); err != nil {
		fmt.Fprintf(os.Stderr, "respdiff: %v\n", err)
		os.Exit(1)
	}
}

// run asks all questions and prints the differences.
func run(puntdns, coredns string, all bool) error {
	t := new(lab.Program)
	defer t.End()
	servers := start(t, puntdns, coredns)
	asked := questions()
	var found []difference
	for _, q := range asked {
		found = append(found, q.compare(servers)...)
	}
	fmt.Printf("%d questions, %d differences\n\n", len(asked), len(found))
	return report(os.Stdout, found, all)
}

// report prints the differences by reason, then those without a reason. It returns an error if there is a difference
// without a reason, or a reason without a difference.
func report(out io.Writer, found []difference, all bool) error {
	byReason := make([][]difference, len(reasons))
	var unexplained []difference
	for _, d := range found {
		if i := d.reason(); i >= 0 {
			byReason[i] = append(byReason[i], d)
		} else {
			unexplained = append(unexplained, d)
		}
	}
	unused := 0
	for i, r := range reasons {
		if len(byReason[i]) == 0 {
			unused++
			fmt.Fprintf(out, "no difference has this reason: %s, %s: %s\n", r.from, r.field, r.why)
			continue
		}
		fmt.Fprintf(out, "%s, %s, %d times: %s\n", r.from, r.field, len(byReason[i]), r.why)
		shown := byReason[i][:1]
		if all {
			shown = byReason[i]
		}
		for _, d := range shown {
			fmt.Fprintf(out, "    %s\n", d)
		}
	}
	for _, d := range unexplained {
		fmt.Fprintf(out, "no reason: %s, %s: %s\n", d.from, d.field, d)
	}
	if len(unexplained) > 0 || unused > 0 {
		return fmt.Errorf("%d differences without a reason, %d reasons without a difference", len(unexplained), unused)
	}
	return nil
}
