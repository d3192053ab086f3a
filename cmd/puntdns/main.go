// SPDX-License-Identifier: Apache-2.0

// Command puntdns is a CoreDNS that answers the DNS queries that an Open
// vSwitch bridge punts to it. See the README for what it does and
// Corefile.example for how it is configured.
package main

import (
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
	"go.uber.org/automaxprocs/maxprocs"

	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/ofpunt"
)

// version is set by the Makefile from the newest tag.
var version = "0.0.0-dev"

// serverType is CoreDNS's name for itself in caddy.
const serverType = "dns"

// main does what coremain.Run does, except for signals: caddy's handlers would start a
// new Corefile without a trial, and remove the flows before the lameduck of *health*
// ends.
func main() {
	if err := dnsserver.SetDirectives(directives); err != nil {
		fatal(err)
	}
	caddy.AppName = "puntdns"
	caddy.AppVersion = fmt.Sprintf("%s (CoreDNS-%s)", version, coremain.CoreVersion)
	// CoreDNS's own loader of -conf has precedence over ours, so it does not get the flag.
	conf := confFlag(caddy.DefaultConfigFile)
	flag.Lookup("conf").Value = &conf
	checkOnly := flag.Bool("check", false, "Say what a start would refuse or warn of, and start nothing")
	flag.Parse()
	if format := flagText("log-format"); format != "text" {
		if err := clog.Configure(format, os.Stdout); err != nil {
			fatal(err)
		}
	}
	clog.SetOutput(logTo(os.Stdout, priorityInfo))
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
		for _, name := range slices.Sorted(slices.Values(directives)) {
			fmt.Println(name)
		}
	case *checkOnly:
		os.Exit(check(&conf))
	default:
		serve(&conf)
	}
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
	clog.SetOutput(logTo(os.Stderr, priorityErr))
	if clog.IsJSON() {
		clog.Fatal(err)
	}
	stdlog.Fatal(err)
}

// serve serves until a signal ends the process.
func serve(conf *confFlag) {
	if err := shortenSlices(); err != nil {
		fmt.Fprintln(os.Stderr, "puntdns: guests that use up their processors may delay answers:", err)
	}
	paceGC()
	if _, err := maxprocs.Set(maxprocs.Logger(stdlog.Printf)); err != nil {
		clog.Warningf("Failed to set GOMAXPROCS: %v", err)
	}
	ofpunt.TakeOverAfter(directives[len(directives)-1])
	r := newReloader(conf)
	r.handleSignals()
	in, err := caddy.LoadCaddyfile(serverType)
	if err != nil {
		fatal(err)
	}
	warnOfVariables(in)
	warnOfForwards(in)
	if blocks, err := parseBlocks(in); err == nil { // else start returns the error
		if err := checkListeners(in.Path(), blocks); err != nil {
			fatal(err)
		}
	}
	if err := start(in); err != nil {
		fatal(withPosition(in, err))
	}
	if !dnsserver.Quiet {
		if clog.IsJSON() {
			clog.Info(versionText())
		} else {
			fmt.Print(versionText())
		}
	}
	select {} // a signal ends the process
}

// start starts the first Corefile. What its plugins have opened is closed if one of them fails.
func start(in caddy.Input) error {
	_, err := caddy.Start(in)
	if err != nil {
		_ = corefile.StartFailed()
	}
	return err
}
