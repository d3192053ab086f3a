// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/corefile/corefiletest"
	"github.com/puntdns/puntdns/internal/precheck"
	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/internal/testkit/golden"
	"github.com/puntdns/puntdns/plugin/neutronhosts/addnhosts"
	"github.com/puntdns/puntdns/plugin/ovnhosts"
	"github.com/puntdns/puntdns/plugins"
)

// newTestReloader is a reloader that is not known to caddy, with what serves.
func newTestReloader(conf precheck.Source, serves *caddy.Instance) *reloader {
	r := &reloader{conf: &conf}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.current.Store(serves)
	return r
}

// A shutdown waits for the restart of the plugin reload, and stops the instance after it.
func TestShutDownDuringRestart(t *testing.T) {
	var stopped []string
	serves := func(name string) *caddy.Instance {
		stop := func() error { stopped = append(stopped, name); return nil }
		return &caddy.Instance{OnShutdown: []func() error{stop}}
	}
	r := newTestReloader("", serves("before"))
	r.restarting.Store(time.AfterFunc(time.Hour, func() {}))
	code := make(chan int)
	go func() { code <- r.shutDown("SIGTERM") }()
	<-r.ctx.Done()
	_ = r.started(caddy.InstanceStartupEvent, serves("after"))
	if got := <-code; got != 0 || len(stopped) != 1 || stopped[0] != "after" {
		t.Errorf("status %d, stopped %q; want 0 and the instance after the restart", got, stopped)
	}
}

// When a restart has failed, the trial ends, and the next reload need not wait.
func TestRestartFailed(t *testing.T) {
	i, ended := &caddy.Instance{}, 0
	r := newTestReloader("", nil)
	_ = r.started(caddy.InstanceStartupEvent, i)
	end := func() { ended++ }
	r.trial.Store(&end)
	r.restarting.Store(time.AfterFunc(time.Hour, func() {}))
	for _, f := range i.OnRestartFailed {
		_ = f()
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if !r.awaitRestart(ctx) || ended != 1 {
		t.Errorf("the restart goes on, or what was opened has ended %d times, want once", ended)
	}
}

// A callback of the old instance that fails when the new one serves does not fail the reload,
// and the callbacks behind it are called. At the end of the process it gives the status.
func TestFailedShutdown(t *testing.T) {
	in := caddy.CaddyfileInput{Contents: []byte(".:0 {\n    bind 127.0.0.1\n    whoami\n}\n"), ServerTypeName: precheck.ServerType}
	failure := func() error { return errors.New("context deadline exceeded") }
	for _, tt := range []struct {
		name string
		fail func() error
	}{
		{"an error", failure},
		{"a panic", func() error { panic("a plugin's") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			old := corefiletest.Start(t, in)
			stopped, failed := 0, 0
			old.OnShutdown = append(old.OnShutdown, tt.fail, func() error { stopped++; return nil })
			old.OnRestartFailed = append(old.OnRestartFailed, func() error { failed++; return nil })
			r := newTestReloader("", nil)
			_ = r.started(caddy.InstanceStartupEvent, old)
			if err := r.restart(in); err != nil || r.triedErr != nil {
				t.Errorf("the reload has failed: %v", err)
			}
			if stopped != 1 || failed != 0 {
				t.Errorf("the callback behind was called %d times, OnRestartFailed %d times; want 1 and 0", stopped, failed)
			}
			all := caddy.Instances()
			if len(all) != 1 || all[0] == old {
				t.Fatalf("instances %v, want a new one", all)
			}
			last := all[0]
			last.OnShutdown = append(last.OnShutdown, failure)
			_ = r.started(caddy.InstanceStartupEvent, last)
			if code := r.shutDown("SIGTERM"); code != 4 {
				t.Errorf("status %d at the end, want 4", code)
			}
		})
	}
}

// A Corefile that has failed its start is not started again by the plugin reload.
func TestFailedStartIsRefused(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	path := filepath.Join(t.TempDir(), "Corefile")
	read := func(text string) caddy.Input {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return caddy.CaddyfileInput{Filepath: path, Contents: []byte(text), ServerTypeName: precheck.ServerType}
	}
	i := corefiletest.Start(t, read(".:0 {\n    bind 127.0.0.1\n    whoami\n}\n"))
	_, port, _ := net.SplitHostPort(busy.Addr().String())
	in := read(".:" + port + " {\n    bind 127.0.0.1\n    whoami\n}\n")
	r := newTestReloader(precheck.Source(path), i)
	r.tried = fingerprintOf(in, nil)
	if err := r.restart(in); err == nil {
		t.Fatal("it has started on a port that is taken")
	}
	if _, err := r.load(precheck.ServerType); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("offered again: %v, want the error of its start", err)
	}
	if err := r.current.Load().Stop(); err != nil {
		t.Error(err)
	}
}

// What the plugins of a Corefile have opened is closed if its start fails, also where the Corefile
// before has none of them, and at the first start.
func TestFailedStartClosesAll(t *testing.T) {
	if err := dnsserver.SetDirectives(plugins.Directives); err != nil {
		t.Fatal(err)
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	_, port, _ := net.SplitHostPort(busy.Addr().String())
	free := testkit.FreeAddress(t)
	text := func(port, more string) caddy.Input {
		return caddy.CaddyfileInput{ServerTypeName: precheck.ServerType, Contents: fmt.Appendf(nil, ".:%s {\n    bind 127.0.0.1\n    whoami\n%s\n}\n", port, more)}
	}
	dir := t.TempDir()
	failing := text(port, fmt.Sprintf("neutronhosts {\n path %s\n}\novnhosts {\n southbound unix:%s\n}\nready %s", dir, filepath.Join(dir, "sb"), free))
	none := new(ovnhosts.Handler).NotReady()
	closed := func(t *testing.T) {
		t.Helper()
		if all := addnhosts.All(); len(all) > 0 {
			t.Errorf("neutronhosts: %s is followed", all[0].Dir())
		}
		if got := new(ovnhosts.Handler).NotReady(); !slices.Equal(got, none) {
			t.Errorf("ovnhosts: %q, want %q", got, none)
		}
		if r, err := http.Get("http://" + free + "/ready"); err == nil {
			r.Body.Close()
			t.Error("ready: it answers")
		}
	}
	t.Run("the first start", func(t *testing.T) {
		if err := start(failing); err == nil || !strings.Contains(err.Error(), "in use") {
			t.Fatalf("%v, want that its port is in use", err)
		}
		closed(t)
	})
	t.Run("a reload", func(t *testing.T) {
		i := corefiletest.Start(t, text("0", ""))
		for range 2 {
			if _, err := i.Restart(failing); err == nil || !strings.Contains(err.Error(), "in use") {
				t.Fatalf("%v, want that its port is in use", err)
			}
			closed(t)
		}
		// One that succeeds keeps what it has opened, also when the next one fails.
		dir := t.TempDir()
		next := corefiletest.Reload(t, i, text("0", fmt.Sprintf("neutronhosts {\n path %s\n}", dir)))
		if _, err := next.Restart(failing); err == nil {
			t.Fatal("it has started")
		}
		if all := addnhosts.All(); len(all) != 1 || all[0].Dir() != dir {
			t.Errorf("%d folders are followed, want %s", len(all), dir)
		}
		if errs := next.ShutdownCallbacks(); len(errs) > 0 {
			t.Error(errs)
		}
		if err := next.Stop(); err != nil {
			t.Error(err)
		}
		closed(t)
	})
}

// The plugin reload finds no other Corefile where the first has come by a pipe.
func TestReloadOfStdin(t *testing.T) {
	r := newTestReloader(precheck.Stdin, &caddy.Instance{})
	if _, err := r.load(precheck.ServerType); err != nil {
		t.Errorf("refused: %v", err)
	}
}

// The status tells the last reload that was refused, and what is in force, until another Corefile is or
// the file is again what is in force. It is well all the while.
func TestStatusOfReload(t *testing.T) {
	if err := dnsserver.SetDirectives(plugins.Directives); err != nil {
		t.Fatal(err)
	}
	const good = ".:0 {\n    bind 127.0.0.1\n    whoami\n}\n"
	path := filepath.Join(t.TempDir(), "Corefile")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(good)
	i := corefiletest.Start(t, caddy.CaddyfileInput{Filepath: path, Contents: []byte(good), ServerTypeName: precheck.ServerType})
	r := newTestReloader(precheck.Source(path), nil)
	told := func() (s api.Status) {
		r.addStatus(t.Context(), &s)
		return s
	}
	if s := told(); s.Corefile != (api.Corefile{}) {
		t.Errorf("before the start: %+v", s.Corefile)
	}
	_ = r.started(caddy.InstanceStartupEvent, i)
	check := func(what, by string) {
		t.Helper()
		s := told()
		if s.Corefile.Path != path || s.Corefile.Taken == nil || (s.Corefile.Refused != nil) != (by != "") || len(s.Warnings) != min(1, len(by)) || len(s.Problems) > 0 {
			t.Fatalf("%s: %+v, %+v", what, s.Corefile, s.Warnings)
		}
		if by == "" {
			return
		}
		if r := s.Corefile.Refused; r.By != by || s.Warnings[0].Code != api.CodeReload || !strings.Contains(s.Warnings[0].Text, "("+by+")") || !strings.HasSuffix(s.Warnings[0].Text, ": "+r.Reason) {
			t.Errorf("%s: %+v, %+v, want it by %s", what, r, s.Warnings, by)
		}
	}
	check("started", "")
	write("")
	r.reload() // of an empty file
	check("an empty file", "SIGUSR1")
	write(good)
	if _, err := r.load(precheck.ServerType); err != nil {
		t.Fatal(err)
	}
	check("the file is what is in force", "")
	write("")
	r.reload()
	check("an empty file", "SIGUSR1")
	write(good)
	check("the file is what is in force, without the plugin reload", "")
	r.tried = fingerprintOf(i.Caddyfile(), nil)
	r.failed("SIGUSR1", errors.New("a peer is away"))
	check("what is in force was refused itself", "SIGUSR1")
	if got := told().Corefile.Refused.Reason; got != "a peer is away" {
		t.Errorf("refused for %q", got)
	}
	write("")
	if _, err := r.load(precheck.ServerType); err == nil {
		t.Fatal("an empty file was taken")
	}
	check("an empty file that the plugin reload saw", byPlugin)
	_ = r.started(caddy.InstanceStartupEvent, i)
	check("another Corefile", "")
	if err := i.Stop(); err != nil {
		t.Error(err)
	}
}

// A file that the Corefile imports is part of it: what it becomes is tried and refused, and is not
// taken for what is in force.
func TestReloadOfImported(t *testing.T) {
	dir := t.TempDir()
	path, imported := filepath.Join(dir, "Corefile"), filepath.Join(dir, "imported")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const good = "whoami\n"
	text := ".:0 {\n    bind 127.0.0.1\n    import " + imported + "\n}\n"
	write(path, text)
	write(imported, good)
	i := corefiletest.Start(t, caddy.CaddyfileInput{Filepath: path, Contents: []byte(text), ServerTypeName: precheck.ServerType})
	r := newTestReloader(precheck.Source(path), nil)
	_ = r.started(caddy.InstanceStartupEvent, i)
	// A trial would start this test once more; with an end that has come it fails at once.
	r.cancel()
	for _, wrong := range []string{"nonsense\n", "nonsense again\n"} {
		write(imported, wrong)
		if _, err := r.load(precheck.ServerType); !errors.Is(err, errEnds) {
			t.Errorf("%q: %v, want it tried", wrong, err)
		}
		var s api.Status
		if r.addStatus(t.Context(), &s); s.Corefile.Refused == nil {
			t.Errorf("%q: the status tells no refusal", wrong)
		}
	}
	write(imported, good)
	var s api.Status
	if r.addStatus(t.Context(), &s); s.Corefile.Refused != nil {
		t.Errorf("the file is what is in force: %+v", s.Corefile.Refused)
	}
	if err := i.Stop(); err != nil {
		t.Error(err)
	}
}

// A start that fails behind a trial that has passed is told in the status, too. Of one by the plugin reload
// nobody but the plugin gets the error; one by a signal is told with its error.
func TestStatusOfFailedStart(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	_, port, _ := net.SplitHostPort(busy.Addr().String())
	text := func(port string) caddy.Input {
		return caddy.CaddyfileInput{ServerTypeName: precheck.ServerType, Contents: []byte(".:" + port + " {\n    bind 127.0.0.1\n    whoami\n}\n")}
	}
	i := corefiletest.Start(t, text("0"))
	r := newTestReloader("Corefile", nil)
	_ = r.started(caddy.InstanceStartupEvent, i)
	if err := r.restart(text(port)); err == nil || r.refused.Load() != nil {
		t.Errorf("%v: told %+v, before the signal's reload has told it", err, r.refused.Load())
	}
	if _, err := i.Restart(text(port)); err == nil { // as the plugin does
		t.Fatal("it has started on a port that is taken")
	}
	var s api.Status
	r.addStatus(t.Context(), &s)
	if len(s.Warnings) != 1 || s.Corefile.Refused == nil || s.Corefile.Refused.By != byPlugin {
		t.Fatalf("%+v, %+v", s.Corefile, s.Warnings)
	}
	golden.Check(t, s.Corefile.Refused.Reason)
	if err := i.Stop(); err != nil {
		t.Error(err)
	}
}

// The reason of a refusal is one line: a terminal is shown no control characters.
func TestReasonOnOneLine(t *testing.T) {
	r := newTestReloader("Corefile", nil)
	r.failed("SIGUSR1", errors.New("Corefile:3 - plugin/view: unexpected token EOF (1:7)\n | true ==\n | ......^\n\nCorefile:9 - plugin/cache: cache TTL\n"))
	const want = "Corefile:3 - plugin/view: unexpected token EOF (1:7); | true ==; | ......^; Corefile:9 - plugin/cache: cache TTL"
	if got := r.refused.Load().Reason; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
