// SPDX-License-Identifier: Apache-2.0

// Package puntdns makes a program of a list of plugins: a CoreDNS that answers the DNS queries
// that an Open vSwitch bridge punts to it. Command cmd/puntdns is such a program; docs/extending.md
// says how to make another one, with plugins of one's own.
package puntdns

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	stdlog "log"
	"os"
	"runtime"
	"slices"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	clog "github.com/coredns/coredns/plugin/pkg/log"

	"github.com/puntdns/puntdns/internal/lifecycle"
	"github.com/puntdns/puntdns/internal/plugincfg"
	"github.com/puntdns/puntdns/internal/precheck"
	"github.com/puntdns/puntdns/internal/process"
	"github.com/puntdns/puntdns/ofpunt"
)

// Distribution is what distinguishes one program from another.
type Distribution struct {
	// Name is the first word of what -version says; "" stands for puntdns.
	Name string
	// Version follows it, in any form.
	Version string
	// Directives are the names of the plugins, in the order in which they are set up and in which a
	// query passes them. The program links the package of each.
	Directives []string
}

// Run does what the command line asks for, and ends the process: it serves a Corefile until a
// signal comes, checks one, or tells its version or plugins. Call it once, from main. Signals are
// not those of coremain.Run: caddy's handlers would start a new Corefile without a trial, and
// remove the flows before the lameduck of *health* ends.
func Run(d Distribution) {
	if err := checkDirectives(d.Directives); err != nil {
		fatal(fmt.Errorf("the list of plugins in this program: %w", err))
	}
	if err := dnsserver.SetDirectives(d.Directives); err != nil {
		fatal(err)
	}
	last := d.Directives[len(d.Directives)-1]
	caddy.AppName = cmp.Or(d.Name, "puntdns")
	caddy.AppVersion = fmt.Sprintf("%s (CoreDNS-%s)", d.Version, coremain.CoreVersion)
	// CoreDNS's own loader of -conf has precedence over ours, so it does not get the flag.
	conf := precheck.Source(caddy.DefaultConfigFile)
	flag.Lookup("conf").Value = &conf
	checkOnly := flag.Bool("check", false, "Say what a start would refuse or warn of, and start nothing")
	flag.Parse()
	if format := flagText("log-format"); format != "text" {
		if err := clog.Configure(format, os.Stdout); err != nil {
			fatal(err)
		}
	}
	said := &precheck.Log{W: process.LogTo(os.Stdout, process.PriorityInfo)}
	clog.SetOutput(said)
	if !clog.IsJSON() {
		stdlog.SetFlags(coremain.LogFlags)
	}
	switch {
	case flag.NArg() > 0:
		fatal(fmt.Errorf("extra command line arguments: %s", flag.Args()))
	case flagText("version") == "true":
		fmt.Print(versionText())
	case flagText("plugins") == "true":
		// Not caddy's list: it has what other plugins bring along, which no Corefile can name.
		for _, name := range slices.Sorted(slices.Values(d.Directives)) {
			fmt.Println(name)
		}
	case *checkOnly:
		os.Exit(lifecycle.Check(&conf, last, said))
	default:
		serve(&conf, last)
	}
}

// checkDirectives returns an error for a list of directives that can't be served.
func checkDirectives(directives []string) error {
	if len(directives) == 0 {
		return errors.New("it is empty; expected names of plugins")
	}
	for _, name := range directives {
		if _, err := caddy.DirectiveAction(precheck.ServerType, name); err != nil {
			return fmt.Errorf("no package that is linked registers %s; expected an import of it", name)
		}
	}
	return plugincfg.CheckOrder(directives)
}

// flagText is the value of a flag that CoreDNS has defined.
func flagText(name string) string { return flag.Lookup(name).Value.String() }

// versionText has the form of CoreDNS's.
func versionText() string {
	return fmt.Sprintf("%s-%s\n%s/%s, %s, %s\n",
		caddy.AppName, caddy.AppVersion, runtime.GOOS, runtime.GOARCH, runtime.Version(), coremain.GitCommit)
}

// fatal ends the process with an error, which stands in the last line of stderr.
func fatal(err error) {
	clog.SetOutput(process.LogTo(os.Stderr, process.PriorityErr))
	if clog.IsJSON() {
		clog.Fatal(err)
	}
	stdlog.Fatal(err)
}

// serve serves until a signal ends the process.
func serve(conf *precheck.Source, last string) {
	if err := process.ShortenSlices(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: guests that use up their processors may delay answers: %v\n", caddy.AppName, err)
	}
	process.PaceGC()
	if err := lifecycle.Start(conf, last); err != nil {
		fatal(err)
	}
	if !dnsserver.Quiet {
		if clog.IsJSON() {
			clog.Info(versionText())
		} else {
			fmt.Print(versionText())
		}
	}
	process.TellStatus(context.Background(), ofpunt.NotReady)
	select {} // a signal ends the process
}
