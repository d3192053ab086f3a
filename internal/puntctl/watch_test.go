// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/puntdns/puntdns/internal/control"
	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/internal/testkit/golden"
	"github.com/puntdns/puntdns/test/lab"
)

func init() { time.Local = time.UTC } // so that times are shown the same everywhere

// streams answers with lines on a control socket, and records the requests. It ends the stream after the
// lines, or waits for the client to close if the last line is nil.
func streams(t *testing.T, path string, lines ...any) (socket string, asked chan url.Values) {
	t.Helper()
	return streamsOf(t, control.New(), path, lines...)
}

// streamsOf does so on a control socket that has other answers, too.
func streamsOf(t *testing.T, s *control.Server, path string, lines ...any) (socket string, asked chan url.Values) {
	t.Helper()
	asked = make(chan url.Values, 10)
	s.Stream(path, func(ctx context.Context, parameters url.Values, send func(...any) error) error {
		asked <- parameters
		if parameters.Get("port") == "nobody" {
			return &control.Error{Status: http.StatusBadRequest, Err: errors.New("port: expected somebody")}
		}
		if err := send(); err != nil {
			return err
		}
		for _, line := range lines {
			if line == nil {
				<-ctx.Done()
				return ctx.Err()
			}
			if err, ok := line.(error); ok {
				return err
			}
			if err := send(line); err != nil {
				return err
			}
		}
		return nil
	})
	socket = filepath.Join(t.TempDir(), "control.sock")
	if err := s.Use(socket, false, new(testkit.Lines)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Use("", false, new(testkit.Lines)) })
	return socket, asked
}

func someQueries() []any {
	query := api.WatchLine{
		Event: api.EventQuery, Time: began, Seconds: 42.13e-6, Bridge: "br-int", Port: "red-vm1", Switch: "red", Network: "0b3c4d5e-0000-4000-8000-000000000001",
		Client: "10.0.1.11:34567", Server: "169.254.169.254:53", Transport: "udp", Block: "/etc/puntdns/Corefile:17 - .", Name: "db.internal.", Type: "A",
		Rcode: "NOERROR", Result: "answered", Reason: "chain",
	}
	changed := func(f func(*api.WatchLine)) *api.WatchLine {
		l := query
		f(&l)
		return &l
	}
	return []any{
		&query,
		changed(func(l *api.WatchLine) {
			l.Seconds, l.Upstream, l.Name, l.Type, l.Labels = .0123, "192.0.2.53:53", "www.example.org.", "AAAA", map[string]string{"ofpunt/external-id/project": "p\u009b31m1"}
		}),
		changed(func(l *api.WatchLine) {
			l.Rcode, l.Reason, l.Result, l.Block, l.Port, l.Server, l.Transport = "SERVFAIL", "overload", "refused", "", "a-port-with-a-long-name\x1b[2J", "[fd00::254]:53", "tcp"
		}),
		&api.WatchLine{Event: api.EventMissed, Time: began, OverRate: 4, Lost: 5},
		changed(func(l *api.WatchLine) { l.Rcode, l.Name, l.Class, l.Type = "REFUSED", `x\027[31m.`, "CH", "TXT" }),
		&api.WatchLine{Event: api.EventQuery, Time: began, Bridge: "br-int", Transport: "udp", Rcode: "DROPPED", Result: "dropped", Reason: "truncated"},
		&api.WatchLine{Event: api.EventEnd, Time: began, Shown: 5, OverRate: 6, Lost: 5},
	}
}

func someTop() *api.Top {
	return &api.Top{
		Time: began, Seconds: 2, Missed: 17,
		All: api.TopEntry{Queries: 3000, PerSecond: 1500, NoError: 2900, NXDomain: 90, ServFail: 1, Resumed: 9, MedianSeconds: 42e-6, P99Seconds: .00123},
		Guests: &api.TopTable{Distinct: 2, Exact: true, Entries: []api.TopEntry{
			{Bridge: "br-int", Port: "red-vm1\x1b[2J", Switch: "red", Queries: 2990, PerSecond: 1495, NoError: 2900, NXDomain: 90, MedianSeconds: 42e-6, P99Seconds: .00123},
			{Bridge: "br-int", Port: "blue-vm1", Switch: "blue", Queries: 10, PerSecond: 5, ServFail: 1, Resumed: 9, MedianSeconds: 2, P99Seconds: 4},
		}},
		Names: &api.TopTable{Distinct: 1024, MissingAtMost: 2, Entries: []api.TopEntry{
			{Name: "db.internal.", Switch: "red", Queries: 2000, TooHigh: 2, PerSecond: 1000, NoError: 1998, MedianSeconds: 42e-6, P99Seconds: .00123},
		}},
		Networks: &api.TopTable{Distinct: 2, Exact: true, Entries: []api.TopEntry{
			{Switch: "red", Network: "0b3c4d5e-0000-4000-8000-000000000001", Queries: 2990, PerSecond: 1495, NoError: 2990},
		}},
		Upstreams: &api.TopTable{Exact: true, Entries: []api.TopEntry{}},
	}
}

func TestStreams(t *testing.T) {
	for _, tc := range []struct {
		name, path string
		lines      []any
		args       string
		status     int
	}{
		{"watch", api.PathWatch, someQueries(), "watch", exitWell},
		{"watch-since", api.PathWatch, append([]any{&api.WatchLine{Event: api.EventHistory, Time: time.Date(2999, 1, 1, 1, 2, 3, 0, time.UTC)}}, someQueries()...), "watch --since 5m", exitWell},
		{"watch-json", api.PathWatch, someQueries(), "watch -o json", exitWell},
		{"watch-yaml", api.PathWatch, someQueries(), "watch -o yaml", exitWell},
		{"watch-cut", api.PathWatch, someQueries()[:1], "watch --reconnect 0", exitNoProcess},
		{"watch-closed", api.PathWatch, []any{errors.New("the socket was closed")}, "watch --reconnect 0", exitNoProcess},
		{"watch-garbage", api.PathWatch, []any{7}, "watch", exitNoProcess},
		{"watch-long", api.PathWatch, []any{strings.Repeat("x", maxLine)}, "watch", exitNoProcess},
		{"watch-refused", api.PathWatch, nil, "watch --port nobody", exitUsage},
		{"top", api.PathTop, []any{someTop()}, "top --once", exitWell},
		{"top-by", api.PathTop, []any{someTop(), someTop()}, "top -n 2 --by guests,upstreams", exitWell},
		{"top-json", api.PathTop, []any{someTop(), someTop()}, "top -o json -n 2", exitWell},
		{"top-yaml", api.PathTop, []any{someTop()}, "top --once -o yaml", exitWell},
		{"top-cut", api.PathTop, []any{someTop()}, "top -n 2 -o json --reconnect 0", exitNoProcess},
		{"top-garbage", api.PathTop, []any{"x"}, "top --once", exitNoProcess},
	} {
		t.Run(tc.name, func(t *testing.T) {
			socket, _ := streams(t, tc.path, tc.lines...)
			var out, errs bytes.Buffer
			status := Run("1.2.3", append(strings.Fields(tc.args), "--socket", socket), &out, &errs)
			if status != tc.status {
				t.Errorf("exit status %d, want %d: %q", status, tc.status, errs.String())
			}
			golden.Check(t, errs.String(), socket, "SOCKET")
			if tc.status == exitWell {
				golden.File(t, "testdata/"+tc.name+".txt", out.String())
			}
			if bytes.ContainsAny(out.Bytes(), "\x1b\u009b") {
				t.Errorf("a command for the terminal: %q", out.String())
			}
			if strings.HasSuffix(tc.args, "-o json") {
				for line := range strings.Lines(out.String()) {
					if !json.Valid([]byte(line)) {
						t.Errorf("%q", line)
					}
				}
			}
		})
	}
}

func TestStreamParameters(t *testing.T) {
	for _, tc := range []struct {
		args, path string
		want       url.Values
	}{
		{"watch", api.PathWatch, url.Values{"rate": {"1000"}}},
		{"watch -n 7 --rate 5 --port a --port b,c --switch red --name *.example.org --type A,AAAA --rcode NXDOMAIN --server-block Corefile:7", api.PathWatch, url.Values{
			"rate": {"5"}, "count": {"7"}, "port": {"a", "b", "c"}, "switch": {"red"}, "name": {"*.example.org"}, "type": {"A", "AAAA"}, "rcode": {"NXDOMAIN"}, "server-block": {"Corefile:7"},
		}},
		{"watch --last 7 --since 1500ms --no-follow", api.PathWatch, url.Values{"rate": {"1000"}, "last": {"7"}, "since": {"2"}, "follow": {"false"}}},
		{"top --once", api.PathTop, url.Values{"interval": {"2"}, "limit": {"20"}, "count": {"1"}}},
		{"top --interval 5 --limit 3 --count 4 --by names,guests --switch red", api.PathTop, url.Values{"interval": {"5"}, "limit": {"3"}, "count": {"4"}, "by": {"names", "guests"}, "switch": {"red"}}},
	} {
		socket, asked := streams(t, tc.path)
		Run("1.2.3", append(strings.Fields(tc.args), "--reconnect", "0", "--socket", socket), io.Discard, io.Discard)
		if got := <-asked; got.Encode() != tc.want.Encode() {
			t.Errorf("%s: %s, want %s", tc.args, got.Encode(), tc.want.Encode())
		}
	}
	said := ""
	for _, args := range []string{"watch -n 0", "watch --last 1025", "watch --since -1s", "watch --no-follow", "watch more", "top --by nobody", "watch --rate x"} {
		var errs bytes.Buffer
		if status := Run("1.2.3", strings.Fields(args), io.Discard, &errs); status != exitUsage {
			t.Errorf("%s: exit status %d", args, status)
		}
		said += fmt.Sprintf("puntctl %s\n%s", args, errs.String())
	}
	golden.Check(t, said)
}

// A port or a switch that no guest has is said at once, and the stream goes on.
func TestStreamOfNobody(t *testing.T) {
	said := ""
	for _, tc := range []struct {
		args, path string
		lines      []any
	}{
		{"watch", api.PathWatch, someQueries()},
		{"watch --port blue-vm1 --switch red", api.PathWatch, someQueries()},
		{"watch --port blue-vm1,vm\x1b9 --switch blu", api.PathWatch, someQueries()},
		{"watch -o json --switch blu", api.PathWatch, someQueries()},
		{"top --once --port red", api.PathTop, []any{someTop()}},
	} {
		s := control.New()
		s.Answer(api.PathGuests, func(context.Context, url.Values) (any, error) { return someGuests(), nil })
		socket, _ := streamsOf(t, s, tc.path, tc.lines...)
		var out, errs bytes.Buffer
		status := Run("1.2.3", append(strings.Fields(tc.args), "--socket", socket), &out, &errs)
		if status != exitWell || out.Len() == 0 {
			t.Errorf("%s: exit status %d, %q", tc.args, status, errs.String())
		}
		// TestStreams has the line at the end of watch.
		said += fmt.Sprintf("puntctl %q\n%s", tc.args, regexp.MustCompile(`(?m)^5 .*\n`).ReplaceAllString(errs.String(), ""))
	}
	golden.Check(t, said)
}

// Ctrl-C ends a stream well, and says what was shown.
func TestInterrupt(t *testing.T) {
	for _, tc := range []struct {
		args, path string
		queries    int
		// behind and lines are when it is interrupted.
		behind string
		lines  int
		want   string
	}{
		{"watch", api.PathWatch, 0, "TIME", 1, "0 queries shown\n"}, // the heading is there before all queries
		{"watch", api.PathWatch, 2, "db.internal", 2, "2 queries shown\n"},
		{"watch -o json", api.PathWatch, 2, "db.internal", 2, ""},
		{"top -o json", api.PathTop, 2, "db.internal", 2, ""},
	} {
		lines := append(someQueries()[:tc.queries], nil)
		socket, _ := streams(t, tc.path, lines...)
		// It ends itself once it has shown what there is.
		out := &signalAfter{lines: tc.lines, more: tc.behind}
		var errs bytes.Buffer
		if status := Run("1.2.3", append(strings.Fields(tc.args), "--socket", socket), out, &errs); status != exitWell || errs.String() != tc.want {
			t.Errorf("%s: exit status %d, %q", tc.args, status, errs.String())
		}
	}
}

// signalAfter is an output that has the process interrupted when it has so many lines behind the first
// that has a word.
type signalAfter struct {
	text  bytes.Buffer
	lines int
	more  string
	sent  bool
}

func (s *signalAfter) Write(p []byte) (int, error) {
	s.text.Write(p)
	if _, rest, found := strings.Cut(s.text.String(), s.more); found && strings.Count(rest, "\n") >= s.lines && !s.sent {
		s.sent = true
		_ = unix.Kill(os.Getpid(), unix.SIGINT)
	}
	return len(p), nil
}

func TestBrief(t *testing.T) {
	for s, want := range map[float64]string{0: "", -1: "", 4.2e-7: "0.42us", 42.13e-6: "42.1us", .000421: "421us", .00123: "1.23ms", .0456: "45.6ms", 2.048: "2.05s", 120: "120s"} {
		if got := brief(s); got != want {
			t.Errorf("%v: %s, want %s", s, got, want)
		}
	}
}

// A terminal shows answers plainly, and refused and failed queries in colours. NO_COLOR turns these off.
func TestOutcomeColours(t *testing.T) {
	for _, tt := range []struct {
		rcode, result string
		want          colour
	}{
		{"NOERROR", "answered", ""}, {"NXDOMAIN", "answered", ""}, {"RESUMED", "resumed", ""}, {"", "", red},
		{"REFUSED", "answered", yellow}, {"SERVFAIL", "refused", yellow}, {"SERVFAIL", "answered", red}, {"FORMERR", "answered", red}, {"DROPPED", "dropped", red},
	} {
		if got := outcomeColour(&api.WatchLine{Rcode: tt.rcode, Result: tt.result}); got != tt.want {
			t.Errorf("%s, %s: %q, want %q", tt.rcode, tt.result, got, tt.want)
		}
	}
	t.Setenv("TERM", "xterm")
	for _, no := range []string{"", "1"} {
		t.Setenv("NO_COLOR", no)
		m := newTerminal(t)
		socket, _ := streams(t, api.PathWatch, someQueries()...)
		root := New("1.2.3")
		root.SetArgs([]string{"watch", "--socket", socket})
		root.SetOut(m.device)
		root.SetErr(io.Discard)
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		seen := m.shows("DROPPED")
		if got := strings.Contains(seen, "\x1b[31mDROPPED"); got != (no == "") {
			t.Errorf("NO_COLOR %q: red: %v: %q", no, got, seen)
		}
		if strings.Contains(seen, "mNOERROR") {
			t.Errorf("an answer has a colour: %q", seen)
		}
	}
}

func TestShares(t *testing.T) {
	for _, tt := range []struct {
		n, sum uint64
		want   string
	}{{0, 0, "0%"}, {0, 10, "0%"}, {1, 1000, "<1%"}, {1, 3, "33%"}, {999, 1000, ">99%"}, {1000, 1000, "100%"}} {
		if got := shareText(tt.n, tt.sum); got != tt.want {
			t.Errorf("%d of %d: %s, want %s", tt.n, tt.sum, got, tt.want)
		}
	}
}

// terminal is a pseudo-terminal: the test reads its screen and presses its keys.
type terminal struct {
	t              *testing.T
	screen, device *os.File
	// unseen is what the screen has shown behind what was waited for.
	unseen string
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		lab.Lack(t, "no terminal: %v", err)
	}
	t.Cleanup(func() { screen.Close() })
	raw, err := screen.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var n int
	_ = raw.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			n, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	device, err := os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { device.Close() })
	if err := unix.IoctlSetWinsize(int(device.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 12, Col: 80}); err != nil {
		t.Fatal(err)
	}
	return &terminal{t: t, screen: screen, device: device}
}

func (m *terminal) mode() unix.Termios {
	m.t.Helper()
	mode, err := unix.IoctlGetTermios(int(m.device.Fd()), unix.TCGETS)
	if err != nil {
		m.t.Fatal(err)
	}
	return *mode
}

// shows waits until the screen has shown a text, and returns the output up to there.
func (m *terminal) shows(want string) (seen string) {
	m.t.Helper()
	b := make([]byte, 4096)
	for {
		if before, behind, found := strings.Cut(m.unseen, want); found {
			m.unseen = behind
			return before + want
		}
		_ = m.screen.SetReadDeadline(time.Now().Add(time.Minute))
		n, err := m.screen.Read(b)
		if err != nil {
			m.t.Fatalf("waiting for %q: %v: %q", want, err, m.unseen)
		}
		m.unseen += string(b[:n])
	}
}

// The screen shows one table, others by keys, and leaves the terminal as it was.
func TestScreen(t *testing.T) {
	for _, how := range []string{"q", "interrupt", "end", "closed"} {
		t.Run(how, func(t *testing.T) {
			m := newTerminal(t)
			before := m.mode()
			lines := []any{someTop(), nil}
			args := []string{"top", "--count", "2", "--reconnect", "0"}
			switch how {
			case "end":
				args, lines = []string{"top", "--count", "1"}, []any{someTop()}
			case "closed":
				lines[1] = errors.New("the socket was closed")
			}
			socket, _ := streams(t, api.PathTop, lines...)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				root := New("1.2.3")
				root.SetArgs(append(args, "--socket", socket))
				root.SetIn(m.device)
				root.SetOut(m.device)
				root.SetErr(io.Discard)
				ended <- root.ExecuteContext(ctx)
			}()
			m.shows(enterScreen)
			if how == "q" || how == "interrupt" {
				first := m.shows("blue-vm1")
				if strings.Contains(first, "db.internal.") || strings.Contains(first, "\x1b[2J") {
					t.Errorf("%q", first)
				}
				if mode := m.mode(); mode.Lflag&unix.ECHO != 0 {
					t.Error("keys are shown")
				}
				for _, key := range []struct{ press, want string }{{"n", "db.internal."}, {"W", "and 1 more"}, {"xu", "UPSTREAM"}, {"g", "GUEST"}} {
					_, _ = m.screen.WriteString(key.press)
					m.shows(key.want)
				}
			}
			switch how {
			case "q":
				_, _ = m.screen.WriteString("q")
			case "interrupt":
				cancel()
			}
			m.shows(leaveScreen)
			if err := <-ended; (err == nil) == (how == "closed") {
				t.Errorf("%v", err)
			}
			if m.mode() != before {
				t.Error("the terminal is not as it was")
			}
		})
	}
}

// The screen shows a warning, which on stderr it would hide.
func TestScreenOfNobody(t *testing.T) {
	m := newTerminal(t)
	s := control.New()
	s.Answer(api.PathGuests, func(context.Context, url.Values) (any, error) { return someGuests(), nil })
	socket, _ := streamsOf(t, s, api.PathTop, someTop(), nil)
	ended := make(chan error, 1)
	go func() {
		root := New("1.2.3")
		root.SetArgs([]string{"top", "--port", "red", "--socket", socket})
		root.SetIn(m.device)
		root.SetOut(m.device)
		root.SetErr(m.device)
		ended <- root.ExecuteContext(t.Context())
	}()
	if before := m.shows(enterScreen); strings.Contains(before, "--port red") {
		t.Errorf("before the screen: %q", before)
	}
	m.shows("--port red: ")
	m.shows("blue-vm1")
	_, _ = m.screen.WriteString("n")
	if seen := m.shows("db.internal."); !strings.Contains(seen, "--port red: ") {
		t.Errorf("not with another table: %q", seen)
	}
	_, _ = m.screen.WriteString("q")
	m.shows(leaveScreen)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestCutLine(t *testing.T) {
	for _, tt := range []struct {
		line    string
		columns int
		want    string
	}{
		{"abc", 3, "abc"}, {"abc", 2, "ab"}, {"é≤x", 2, "é≤"}, {"日本", 3, "日"}, {"e\u0301x", 1, "e\u0301"},
		{"a\x1b[31mbcd\x1b[0m", 2, "a\x1b[31mb\x1b[0m"}, {"\x1b[31ma\x1b[0m", 0, "\x1b[31m\x1b[0m"},
	} {
		if got := string(cutLine([]byte(tt.line), tt.columns)); got != tt.want {
			t.Errorf("%q at %d: %q, want %q", tt.line, tt.columns, got, tt.want)
		}
	}
}
