// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/control"
	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/testkit"
)

// restarting answers the first request of a stream with one line and an error, as a process that ends, and the
// next request with the other lines.
func restarting(t *testing.T, path string, lines ...any) (socket string, counts *[]string) {
	t.Helper()
	socket, counts = filepath.Join(t.TempDir(), "control.sock"), new([]string)
	s := control.New()
	s.Stream(path, func(_ context.Context, parameters url.Values, send func(...any) error) error {
		*counts = append(*counts, parameters.Get("count"))
		if len(*counts) == 1 {
			return errors.Join(send(lines[0]), control.ErrClosed)
		}
		return send(lines[1:]...)
	})
	if err := s.Use(socket, false, new(testkit.Lines)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Use("", false, new(testkit.Lines)) })
	return socket, counts
}

// watch and top go on after a restart of the process, and say so once. The next process is asked for the rest.
func TestReconnect(t *testing.T) {
	queries := someQueries()
	for _, tt := range []struct {
		args, path string
		lines      []any
		shown      string
		times      int
	}{
		{"watch -n 2 -o json", api.PathWatch, []any{queries[0], queries[1], queries[6]}, `"event":"query"`, 2},
		{"top -n 2 -o json", api.PathTop, []any{someTop(), someTop()}, `"guests":`, 2},
	} {
		socket, counts := restarting(t, tt.path, tt.lines...)
		var out, errs bytes.Buffer
		if status := Run("1.2.3", append(strings.Fields(tt.args), "--socket", socket), &out, &errs); status != exitWell {
			t.Errorf("%s: exit status %d, %s", tt.args, status, errs.String())
		}
		if n := strings.Count(out.String(), tt.shown); n != tt.times {
			t.Errorf("%s: %d lines, want %d:\n%s", tt.args, n, tt.times, out.String())
		}
		if !slices.Equal(*counts, []string{"2", "1"}) {
			t.Errorf("%s asks for %q", tt.args, *counts)
		}
		if text := errs.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, socket) {
			t.Errorf("%s: %q", tt.args, text)
		}
	}
}

// watch ends after --count queries also if the connection is lost before the line that says so.
func TestLostAfterLastQuery(t *testing.T) {
	socket, counts := restarting(t, api.PathWatch, someQueries()[0])
	var errs bytes.Buffer
	if status := Run("1.2.3", []string{"watch", "-n", "1", "-o", "json", "--socket", socket}, io.Discard, &errs); status != exitWell || errs.Len() > 0 || len(*counts) != 1 {
		t.Errorf("exit status %d, %q, requests %q", status, errs.String(), *counts)
	}
}

// A stream ends if the process does not come back, and at once if no process was there at first.
func TestReconnectEnds(t *testing.T) {
	for _, tt := range []struct {
		name, socket string
		warnings     int
	}{
		{"the process hangs up each time", saying(t, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}\n"), 1},
		{"no process", filepath.Join(t.TempDir(), "none.sock"), 0},
	} {
		var errs bytes.Buffer
		status := Run("1.2.3", []string{"watch", "--reconnect", "1s", "-o", "json", "--socket", tt.socket}, io.Discard, &errs)
		if n := strings.Count(errs.String(), "\n"); status != exitNoProcess || n != tt.warnings+1 {
			t.Errorf("%s: exit status %d, %q", tt.name, status, errs.String())
		}
	}
}

// The screen of top shows that the connection is lost, and goes on with the next process.
func TestScreenReconnects(t *testing.T) {
	m := newTerminal(t)
	socket, _ := restarting(t, api.PathTop, someTop(), someTop())
	ended := make(chan error, 1)
	go func() {
		root := New("1.2.3")
		root.SetArgs([]string{"top", "--count", "2", "--socket", socket})
		root.SetIn(m.device)
		root.SetOut(m.device)
		root.SetErr(io.Discard)
		ended <- root.ExecuteContext(t.Context())
	}()
	m.shows("closed:") // a word, as the sentence may be wrapped
	m.shows(leaveScreen)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestGuestsOfSwitch(t *testing.T) {
	socket := process(t, map[string]any{api.PathGuests: someGuests()})
	for _, tt := range []struct {
		args, want string
		status     int
	}{
		{"guests --switch red", "red-vm1", exitWell},
		{"guests --switch 0b3c4d5e-0000-4000-8000-000000000002", "blue-vm1", exitWell},
		{"guests 10.0.1.11 --switch blue", "blue-vm1", exitWell},
		{"guests --switch red,blu", "", exitUnwell},
		{"guests blue --switch red", "", exitUnwell},
	} {
		var out, errs bytes.Buffer
		status := Run("1.2.3", append(strings.Fields(tt.args), "--socket", socket), &out, &errs)
		if status != tt.status || (errs.Len() > 0) != (tt.status != exitWell) {
			t.Errorf("%s: exit status %d, %q", tt.args, status, errs.String())
		}
		for _, word := range []string{"red-vm1", "blue-vm1", "ghost"} {
			if got := strings.Contains(out.String(), word); got != (word == tt.want) {
				t.Errorf("%s shows %s: %v\n%s", tt.args, word, got, out.String())
			}
		}
	}
}
