// SPDX-License-Identifier: Apache-2.0

// Package lifecycle starts, reloads and ends the instances of Corefiles in a process, and checks a
// Corefile without a start. It does what CoreDNS's own main does, except that a Corefile is tried
// before it takes the place of another, and that the flows of bridges stay until the lameduck of
// *health* has ended.
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

// trialOf in the environment names the Corefile whose text comes by standard input, for a -check by the
// process that is to take it: so the process takes the text that was checked.
const trialOf = "PUNTDNS_TRIAL_OF"

// tryApartTimeout bounds a trial in another process. Setup only reads files, hosts and zones, but on a busy
// machine.
const tryApartTimeout = 30 * time.Second

// errEnds is of a trial that the end of the process cuts off.
var errEnds = errors.New("the process ends")

// Check logs what a start with the Corefile would refuse or warn of, and returns the status to exit with. A
// start ends with the first error of a plugin; Check goes on, and logs the errors of all plugins. It sets up
// all plugins, and leaves the cleaning up to the end of the process. last is the last of the directives, and
// said is the log.
func Check(conf *precheck.Source, last string, said *precheck.Log) int {
	path, isTrial := os.LookupEnv(trialOf)
	var in caddy.Input
	var err error
	if isTrial {
		clog.SetOutput(io.Discard) // the start says all of it again
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
			clog.Discard() // what plugins warn of, the start has logged
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

// verdict is what Check says of a Corefile without errors: OK is for one without warnings.
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

// withSetups returns the errors of the setups of all plugins with the error of the start, which is mostly the
// first of them. If it is another one, since the plugins were set up a second time, it keeps the start from
// taking the Corefile, so it stands first.
func withSetups(start error, setups []error) error {
	all := errors.Join(setups...)
	if all != nil && strings.Contains(all.Error(), start.Error()) {
		return all
	}
	return errors.Join(start, all)
}

// errTried ends the reading of a Corefile that is right.
var errTried = errors.New("tried")

// tryStart does the work of a start up to the first stage of OnStartup, and tries the addresses. Its setups
// can't be undone: plugins such as *ready* have variables of the process that their setup changes. setUp
// reports whether all plugins could be set up. If so, the error has all that is wrong with them together,
// else only the first error. With node it warns of what this node does not have.
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

// checkFiles does what the first stage of OnStartup does for our plugins in a block that read
// files or look for them, and gives warnings.
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
	// The file of this process, though another may have its path since.
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

// head keeps the first 4 KiB that are written. It embeds no buffer: io.Copy would fill
// that by its ReadFrom.
type head struct{ b bytes.Buffer }

// Write implements io.Writer.
func (h *head) Write(p []byte) (int, error) {
	const most = 4 << 10
	h.b.Write(p[:min(len(p), max(most-h.b.Len(), 0))])
	return len(p), nil
}

// String implements fmt.Stringer.
func (h *head) String() string { return h.b.String() }
