// SPDX-License-Identifier: Apache-2.0

// Package lifecycle starts, reloads and ends the instances of Corefiles, and checks a Corefile without a
// start. Unlike CoreDNS's main it tries a Corefile before a reload, and keeps the flows of bridges until the
// lameduck of *health* has ended.
package lifecycle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/caddy/caddyfile"
	clog "github.com/coredns/coredns/plugin/pkg/log"

	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/internal/precheck"
	"github.com/puntdns/puntdns/ofpunt"
	"github.com/puntdns/puntdns/plugin/audit"
	"github.com/puntdns/puntdns/plugin/neutronhosts"
	"github.com/puntdns/puntdns/plugin/ovnhosts"
	"github.com/puntdns/puntdns/plugin/rpz"
)

// trialOf has the path of a Corefile on standard input, for a -check by another process, which takes the
// checked text.
const trialOf = "PUNTDNS_TRIAL_OF"

// tryApartTimeout allows for a busy machine.
const tryApartTimeout = 30 * time.Second

// errEnds: the process's end cuts a trial off.
var errEnds = errors.New("the process ends")

// Check logs warnings and the errors of all plugins, where a start ends with the first. It returns the exit
// status. It sets up all plugins, and leaves the cleaning up to the end of the process. last is the last
// directive.
func Check(conf *precheck.Source, last string, said *precheck.Log) int {
	path, isTrial := os.LookupEnv(trialOf)
	var in caddy.Input
	var err error
	if isTrial {
		clog.SetOutput(io.Discard) // the start logs it again
		time.AfterFunc(tryApartTimeout, func() { os.Exit(1) })
		var text []byte
		text, err = io.ReadAll(os.Stdin)
		in = caddy.CaddyfileInput{Contents: text, Filepath: path, ServerTypeName: precheck.ServerType}
	} else {
		in, err = conf.Read()
	}
	if err == nil {
		precheck.Warn(in)
		var setUp bool
		if setUp, err = tryStart(in, last, !isTrial); err != nil && !setUp && !isTrial {
			clog.Discard() // the start has logged the warnings
			err = withSetups(err, precheck.SetupErrors(in))
		}
		err = precheck.WithPosition(in, err)
	}
	switch {
	case err == nil && !isTrial:
		precheck.Note(in)
		fmt.Printf("%s: %s\n", in.Path(), verdict(said.Warnings()))
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func verdict(warnings int64) string {
	switch warnings {
	case 0:
		return "OK"
	case 1:
		return "no error, 1 warning"
	default:
		return fmt.Sprintf("no error, %d warnings", warnings)
	}
}

// withSetups joins the setups' errors with the start's error, mostly the first of them. If not, the start's
// error comes first, as it prevents the start.
func withSetups(start error, setups []error) error {
	all := errors.Join(setups...)
	if all != nil && strings.Contains(all.Error(), start.Error()) {
		return all
	}
	return errors.Join(start, all)
}

// errTried ends the reading of a valid Corefile.
var errTried = errors.New("tried")

// tryStart does a start up to the first stage of OnStartup, and tries the addresses. Its setups can't be
// undone: those of *ready* and others change process variables. Without setUp the error is only the first.
// With node it warns of what this node lacks.
func tryStart(in caddy.Input, last string, node bool) (setUp bool, err error) {
	ofpunt.CheckAfter(last, node, func(servers []caddy.Server, wrong error) error {
		setUp = true
		blocks, err := precheck.ParseBlocks(in)
		all := []error{wrong, err}
		for i := range blocks {
			all = append(all, checkFiles(in.Path(), &blocks[i]))
		}
		all = append(all, precheck.CheckListeners(in.Path(), blocks), precheck.CheckServers(servers))
		if err := errors.Join(all...); err != nil {
			return err
		}
		return errTried
	})
	if _, err = caddy.Start(in); errors.Is(err, errTried) {
		err = nil
	}
	return setUp, err
}

// checkFiles checks the files of our plugins, and warns.
func checkFiles(path string, block *caddyfile.ServerBlock) error {
	has := func(directive string) bool { return len(block.Tokens[directive]) > 0 }
	var all []error
	for _, p := range []struct {
		directive string
		check     func(*caddy.Controller, func(string) bool) error
	}{{"audit", audit.Check}, {"ovnhosts", ovnhosts.Check}, {"neutronhosts", neutronhosts.Check}, {"rpz", rpz.Check}} {
		if !has(p.directive) {
			continue
		}
		all = append(all, p.check(corefile.Controller(path, block, p.directive), has))
	}
	return errors.Join(all...)
}

// tryApart has another process of this binary check a Corefile.
func tryApart(ctx context.Context, in caddy.Input) error {
	ctx, cancel := context.WithTimeout(ctx, tryApartTimeout)
	defer cancel()
	// The file of this process, even if its path has another.
	cmd := exec.CommandContext(ctx, "/proc/self/exe", append([]string{"-check"}, os.Args[1:]...)...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), trialOf+"="+in.Path())
	cmd.Stdin = bytes.NewReader(in.Body())
	said := &head{}
	cmd.Stderr = said
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	switch text := strings.TrimSpace(said.String()); {
	case err == nil:
		return nil
	case errors.Is(context.Cause(ctx), context.Canceled):
		return errEnds
	case errors.As(err, &exit) && exit.ExitCode() == 1 && text != "":
		return errors.New(text)
	case errors.As(err, &exit): // a panic, or out of time or memory
		first, _, _ := strings.Cut(text, "\n")
		return fmt.Errorf("%s: its trial has ended with %w: %s", in.Path(), err, first)
	default:
		return fmt.Errorf("%s: it could not be tried: %w; expected a system that lets this process start its own file", in.Path(), err)
	}
}

// head stores the first 4 KiB. It embeds no buffer, whose ReadFrom io.Copy would use.
type head struct{ b bytes.Buffer }

func (h *head) Write(p []byte) (int, error) {
	const most = 4 << 10
	h.b.Write(p[:min(len(p), max(most-h.b.Len(), 0))])
	return len(p), nil
}

func (h *head) String() string { return h.b.String() }
