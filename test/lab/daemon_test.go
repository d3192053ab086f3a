// SPDX-License-Identifier: Apache-2.0

package lab_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/puntdns/puntdns/test/lab"
)

func TestDaemons(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{})
	vm, _ := tenant(l, "red")
	row := l.AddDNS(map[string]string{"db.internal": "10.0.0.1"}, "red")
	ask := func(want string) {
		t.Helper()
		l.Eventually("OVN's own DNS", func() error {
			if r := vm.Dig("+noedns", "@10.0.0.12", "db.internal"); r.String() != want {
				return errors.New(r.String())
			}
			return nil
		})
	}
	l.Sync()
	ask("NOERROR 10.0.0.1")
	for i, tc := range []struct {
		name    string
		restart func()
	}{
		{"nb restarts", func() { l.Restart("nb") }},
		{"sb restarts", func() { l.Restart("sb") }},
		{"ovn-northd restarts", func() { l.Restart("ovn-northd") }},
		{"ovn-controller restarts", func() { l.Node.Restart("ovn-controller") }},
		{"ovs-vswitchd restarts", func() { l.Node.Restart("ovs-vswitchd") }},
		{"ovsdb-server restarts", func() { l.Node.Restart("ovsdb-server") }},
		{"sb crashes", func() { l.Kill("sb"); l.Revive("sb") }},
		{"ovn-controller crashes", func() { l.Node.Kill("ovn-controller"); l.Node.Revive("ovn-controller") }},
		{"ovs-vswitchd crashes", func() { l.Node.Kill("ovs-vswitchd"); l.Node.Revive("ovs-vswitchd") }},
		{"ovs-vswitchd pauses", func() {
			p := l.Node.Daemon("ovs-vswitchd")
			for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
				if err := p.Signal(sig); err != nil {
					t.Error(err)
				}
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.restart()
			// A change goes all the way down again.
			addr := []string{"10.0.0.2", "10.0.0.3"}[i%2]
			l.SetDNS(row, map[string]string{"db.internal": addr})
			l.Sync()
			ask("NOERROR " + addr)
		})
	}
	t.Run("no records", func(t *testing.T) {
		l.SetDNS(row, nil)
		l.Sync()
		if got := l.SBCTL("--bare", "--columns=records", "list", "DNS"); got != "" {
			t.Errorf("records: %q", got)
		}
	})
	t.Run("control sockets", func(t *testing.T) {
		for name, got := range map[string]string{
			"nb":             l.AppCtl("nb", "ovsdb-server/list-dbs"),
			"ovn-northd":     l.AppCtl("ovn-northd", "status"),
			"ovn-controller": l.Node.AppCtl("ovn-controller", "connection-status"),
			"ovs-vswitchd":   l.Node.AppCtl("ovs-vswitchd", "dpif/show"),
		} {
			want := map[string]string{"nb": "OVN_Northbound", "ovn-northd": "active", "ovn-controller": "connected", "ovs-vswitchd": l.Datapath + "@ovs-" + l.Datapath}[name]
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if got := l.Node.OFCTL("dump-flows", lab.Bridge, "table=0"); !strings.Contains(got, fmt.Sprintf("in_port=%d ", vm.OFPort)) && !strings.Contains(got, "in_port="+vm.NodePort) {
			t.Errorf("table 0: %s", got)
		}
	})
}

func TestProcess(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{Plain: true})
	ctx := within(t, wait)

	p := l.Node.Start("talker", []string{"WORD=hello"}, "sh", "-c", "echo $WORD; echo world >&2; exec sleep 1000")
	if err := p.WaitLog(ctx, `(?s)hello.*world`); err != nil {
		t.Error(err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if err := p.Wait(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("a running process: %v", err)
	}
	if err := p.WaitLog(gone, "never"); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "world") {
		t.Errorf("a log that never matches: %v", err)
	}
	if err := p.WaitLog(ctx, "("); err == nil {
		t.Error("a wrong expression gives no error")
	}
	if err := p.Stop(); err == nil || !strings.Contains(err.Error(), "terminated") {
		t.Errorf("stopped: %v", err)
	}
	if got := p.Log(); got != "hello\nworld\n" {
		t.Errorf("log %q", got)
	}

	again := l.Node.Start("talker", nil, "sh", "-c", "echo again; exit 7")
	if err := again.WaitLog(ctx, "hello"); err == nil || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("a word of the process before: %v", err)
	}
	if got := again.Log(); got != "again\n" {
		t.Errorf("the second log %q", got)
	}

	p = l.Node.Start("brief", nil, "sh", "-c", "echo I am going; exit 7")
	if err := p.WaitLog(ctx, "never"); err == nil || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("a process that ended without the word: %v", err)
	}
	<-p.Done()

	p = l.Node.Start("killed", nil, "sleep", "1000")
	if err := p.Kill(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("killed: %v", err)
	}

	if _, err := l.Node.Exec(ctx, "no-such-program"); err == nil {
		t.Error("a program that is not there gives no error")
	}
	if _, err := l.Node.Exec(ctx); err == nil {
		t.Error("no command gives no error")
	}
	if _, err := l.Node.Exec(ctx, "sh", "-c", "echo why >&2; exit 3"); err == nil || !strings.Contains(err.Error(), "exit status 3: why") {
		t.Errorf("got %v", err)
	}
}

func TestHTTPGet(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{Plain: true})
	ln, err := l.Node.Listen("tcp", "127.0.0.1:8181")
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Not ready at first.
		if asked++; asked < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		if _, err := io.WriteString(w, r.URL.Path); err != nil {
			t.Error(err)
		}
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	if err := l.Node.WaitHTTP(within(t, wait), "http://127.0.0.1:8181/ready", http.StatusOK); err != nil {
		t.Error(err)
	}
	status, body, err := l.Node.HTTPGet(within(t, wait), "http://127.0.0.1:8181/metrics")
	if status != http.StatusOK || body != "/metrics" || err != nil {
		t.Errorf("%d %q %v", status, body, err)
	}
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
	<-done
	if _, _, err := l.Node.HTTPGet(within(t, wait), "http://127.0.0.1:8181/"); err == nil {
		t.Error("nobody listens, and no error")
	}
	if _, _, err := l.Node.HTTPGet(within(t, wait), "::"); err == nil {
		t.Error("a wrong URL gives no error")
	}
}
