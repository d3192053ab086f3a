// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/puntdns/puntdns/internal/control"
	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/internal/testkit/golden"
)

// process answers on a control socket with the given answers, by path.
func process(t *testing.T, answers map[string]any) (socket string) {
	t.Helper()
	s := control.New()
	for path, answer := range answers {
		if path == api.PathStatus {
			s.AddStatus(func(_ context.Context, to *api.Status) { *to = *answer.(*api.Status) })
			continue
		}
		s.Answer(path, func(_ context.Context, p url.Values) (any, error) {
			if p.Get("of") == "nobody" {
				return nil, control.NotFound("there is no %q", p.Get("of"))
			}
			return answer, nil
		})
	}
	socket = filepath.Join(t.TempDir(), "control.sock")
	if err := s.Use(socket, false, new(testkit.Lines)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Use("", false, new(testkit.Lines)) })
	return socket
}

// otherVersion is a process of another version: its answers are as they stand.
func otherVersion(t *testing.T, answers map[string]any) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "control.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(answers[r.URL.Path])
	})}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close() })
	return socket
}

func pointer[T any](v T) *T { return &v }

var began = time.Date(2026, 11, 23, 1, 2, 3, 0, time.UTC)

func wellStatus() *api.Status {
	return &api.Status{
		Problems: []api.Problem{}, Warnings: []api.Problem{},
		Corefile: api.Corefile{Path: "/etc/puntdns/Corefile", Taken: &began},
		Process:  api.Process{Version: "1.2.3 (CoreDNS-1.15.0)", Go: "go1.26.8", PID: 42, UID: 998, Started: began, UptimeSeconds: 93784},
		Bridges: []api.Bridge{{
			Name: "br-int", Serving: true, Chassis: "hv1",
			Connection: api.Connection{
				Endpoint: "unix:/var/run/openvswitch/br-int.mgmt", Up: true, Since: &began, Version: "OpenFlow 1.5",
				Switch: "Open vSwitch 3.1.0", DatapathID: "00003a40d0e7064f", ControllerID: 41210,
			},
			LocalDatabase: api.LocalDatabase{Endpoint: "unix:/var/run/openvswitch/db.sock", Up: true, HasBridge: true},
			Placement:     api.Placement{Kind: "ovn", Table: pointer(uint8(29)), StageTable: pointer(uint8(30)), LogicalTable: pointer(22), Priority: 200},
			Addresses:     []string{"169.254.169.254:53", "[fd00::254]:53"},
			Lease:         api.Lease{Seconds: 15, HeartbeatSeconds: 5, LastHeartbeatSecondsAgo: pointer(2.5), LeftSeconds: pointer(12.5)},
			Flows: api.Flows{Cookie: "0x70646e1543cfc8a4", Expected: 21, Counted: &api.Counted{
				Flows: 21, EntryPackets: 12, PuntPackets: 11, PassedPackets: 1,
			}},
			Guests:          api.GuestCounts{Served: 2},
			QueriesInFlight: 3, TCPConnections: 1,
		}},
		Databases: []api.Database{{
			Name: "OVN_Southbound", Endpoint: "ssl:10.1.0.1:6642", Synced: true, Since: began, Model: "clustered",
			Snapshot: api.Snapshot{AgeSeconds: pointer(75.0), Settled: true, Networks: 2, Ports: 4, DNSRows: 3, Names: 11},
		}},
	}
}

func unwellStatus() *api.Status {
	s := wellStatus()
	s.Bridges[0].Serving, s.Bridges[0].Waiting = false, "the punt is not installed in the switch"
	s.Bridges[0].Lease = api.Lease{Seconds: 15, LastHeartbeatSecondsAgo: pointer(31.0), LeftSeconds: pointer(0.0), Overdue: true}
	s.Bridges[0].Flows.Counted, s.Bridges[0].Flows.Error = nil, "the switch has not told its counters in 3s"
	s.Bridges[0].Guests = api.GuestCounts{Served: 2, Retained: 1, WithoutAddress: 1, Unserved: 1}
	s.Databases[0].Synced, s.Databases[0].Failure = false, &api.Failure{Cause: api.CauseTimeout, Text: "dial tcp 10.1.0.1:6642: i/o timeout"}
	s.Warnings = []api.Problem{
		{Code: api.CodeReload, About: "/etc/puntdns/Corefile", Text: "the reload at 2026-11-23 02:00:00 (SIGUSR1) was refused, and the Corefile as taken at 2026-11-23 01:02:03 stays in force: Corefile:3 - plugin/cache: cache TTL"},
		{Code: api.CodeBadValues, About: "unix:sb.sock", Text: "values of the databases that can't be used and are skipped: 1, such as: a"},
		{Code: api.CodeRefusedServers, About: "ovnforward", Text: "servers that networks name for zones of theirs and that are not asked: 1, such as: b"},
	}
	s.Problems = []api.Problem{
		{Code: api.CodeLease, About: "br-int", Text: "a probe through the switch has not come back in time, so the punt is not renewed"},
		{Code: api.CodeUnserved, About: "br-int", Text: "interfaces that are not served: 1"},
		{Code: api.CodeDatabase, About: "OVN_Southbound", Text: "not in sync: dial tcp 10.1.0.1:6642: i/o timeout"},
	}
	return s
}

func someGuests() *api.Guests {
	return &api.Guests{
		Guests: []api.Guest{
			{
				Bridge: "br-int", Port: "blue-vm1", Switch: "blue", Network: "0b3c4d5e-0000-4000-8000-000000000002", InPort: 2, VLAN: 7, Interface: "tap2", PortKey: 1,
				MACs: []string{"02:00:00:00:01:11"}, Addresses: []string{"10.0.1.11"}, Resolvers: []string{"169.254.169.254:53", "[fd00::254]:53"}, Retained: true,
				Owned: []string{"169.254.169.254"},
			},
			{
				Bridge: "br-int", Port: "red-vm1\x1b[2J", Switch: "red", Network: "0b3c4d5e-0000-4000-8000-000000000001", InPort: 1, Interface: "tap1", PortKey: 1,
				MACs: []string{"02:00:00:00:01:11"}, Addresses: []string{"10.0.1.11", "fd00:1::11"}, Resolvers: []string{"169.254.169.254:53"},
				FlowCounters: &api.FlowCounters{Flows: 9, Queries: 1234, LastQuerySecondsAgo: pointer(0.25)},
				DHCP:         &api.DHCP{Row: "0b3c4d5e-0000-4000-8000-00000000000d", CIDR: "10.0.1.0/24", Router: "10.0.1.1", Routes: "{10.9.0.0/16,10.0.1.9}", DNSServer: "{169.254.169.254, 9.9.9.9}"},
			},
		},
		Unserved: []api.Unserved{
			{Bridge: "br-int", Interface: "ghost", Port: "ghost", InPort: 9, Reason: "Southbound has no logical port of this name"},
			{Bridge: "br-int", Interface: "tap9", Port: "red-meta", InPort: 8, Reason: "its logical port is of a type that is no guest", Expected: true},
		},
	}
}

func someNames() *api.Names {
	return &api.Names{Of: "peer", Kind: "name", Networks: []api.NetworkNames{{
		Switch: "red", Network: "0b3c4d5e-0000-4000-8000-000000000001", Count: 2, Names: []api.Name{{Name: "peer.", Values: []api.Value{
			{Source: "dns", Row: "0b3c4d5e-0000-4000-8000-0000000000aa", Database: "OVN_Northbound", Addresses: []string{}, Unreadable: true, OVNOwned: true},
			{Source: "port", Port: "red-peer", DomainFrom: "switch", Addresses: []string{"10.0.1.102", "fd00:1::102"}, Wins: true},
			{Source: "dns", Row: "0b3c4d5e-0000-4000-8000-0000000000ab", Database: "OVN_Northbound", Addresses: []string{}, Records: []string{"MX 10 mail.example.", "TXT \"a\""}, Keys: []string{"dns-mx", "dns-txt"}, Wins: true},
		}}},
		ForwardedZones: 2, Forwards: []api.Forward{{Zone: "peer.", Servers: []string{"10.1.0.53:53", "[fd00::53]:5353"}, NamedBy: `router "r1"`}},
	}}}
}

// The output is as in testdata; go test -update writes it there.
func TestOutput(t *testing.T) {
	well := map[string]any{api.PathStatus: wellStatus(), api.PathGuests: someGuests(), api.PathNames: someNames()}
	unwell := map[string]any{api.PathStatus: unwellStatus(), api.PathGuests: someGuests(), api.PathNames: someNames()}
	for _, tc := range []struct {
		name    string
		answers map[string]any
		args    string
		status  int
	}{
		{"status", well, "status", exitWell},
		{"status-unwell", unwell, "status", exitUnwell},
		{"status-json", well, "status -o json", exitWell},
		{"status-yaml", unwell, "status -o yaml", exitUnwell},
		{"guests", well, "guests", exitWell},
		{"guests-of-blue", well, "guests blue", exitWell},
		{"names", well, "names peer", exitWell},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			status := Run("1.2.3", append(strings.Fields(tc.args), "--socket", process(t, tc.answers)), &out, &errs)
			if status != tc.status || errs.Len() > 0 {
				t.Errorf("exit status %d, want %d: %s", status, tc.status, errs.String())
			}
			golden.File(t, "testdata/"+tc.name+".txt", out.String())
		})
	}
}

// hostile has text that would begin another line, text that a terminal takes for a command, and text that
// reverses the direction of writing.
const hostile = "vm\n[INFO] forged\x1b[2J\u009b2J\u2028\u202e\u2066\ufeff\U000e0041\\n: \"x\" #"

// Nothing that a tenant has written gets to a terminal as it stands. JSON and YAML have all of it.
func TestHostileNames(t *testing.T) {
	guests := &api.Guests{
		Guests:   []api.Guest{{Bridge: "br-int", Port: hostile, Switch: hostile, Network: "0b3c4d5e-0000-4000-8000-000000000002", InPort: 2, Resolvers: []string{"169.254.169.254:53"}}},
		Unserved: []api.Unserved{{Bridge: "br-int", Interface: "tap9", Port: hostile, InPort: 8, Reason: hostile}},
	}
	status := wellStatus()
	status.Warnings = []api.Problem{{Code: api.CodeBadValues, About: hostile, Text: hostile}}
	answers := map[string]any{
		api.PathStatus: status, api.PathGuests: guests,
		api.PathNames: &api.Names{Of: hostile, Kind: "port", Networks: []api.NetworkNames{{
			Switch: hostile, Truncated: true, Names: []api.Name{{Name: "peer.", Values: []api.Value{{Source: "port", Port: hostile, Addresses: []string{"10.0.1.102"}}}}},
			Forwards: []api.Forward{{Zone: "peer.", NamedBy: hostile}},
		}}},
		api.PathExplain: &api.Explanation{
			Guest: guests.Guests[0], Rcode: "NOERROR", Views: []api.View{{Name: "v", Labels: []api.Label{{Name: "ofpunt/port", Value: hostile}}}},
			Labels: []api.Label{{Name: "ofpunt/port", Value: hostile}}, Notes: []string{hostile}, Findings: []api.Problem{{Code: api.CodeView, Text: hostile, Remedy: hostile}},
		},
	}
	socket := process(t, answers)
	unsafe := func(r rune) bool { return r != '\n' && !strconv.IsPrint(r) }
	for _, args := range []string{"status", "guests", "names x", "doctor", "explain x y"} {
		for _, format := range []string{formatTable, formatJSON, formatYAML} {
			var out, errs bytes.Buffer
			status := Run("1.2.3", append(strings.Fields(args), "--output", format, "--socket", socket), &out, &errs)
			text := out.String()
			if status > exitUnwell || errs.Len() > 0 || !strings.Contains(text, "forged") {
				t.Fatalf("%s -o %s: exit status %d: %s%s", args, format, status, text, errs.String())
			}
			if strings.ContainsFunc(text, unsafe) || strings.Contains(text, "\n[INFO]") {
				t.Errorf("%s -o %s is not safe:\n%q", args, format, text)
			}
			if args != "guests" || format == formatTable {
				continue
			}
			var got struct {
				Guests []struct{ Port, Switch string }
			}
			decode := map[string]func([]byte, any) error{formatJSON: json.Unmarshal, formatYAML: yaml.Unmarshal}[format]
			if err := decode(out.Bytes(), &got); err != nil || len(got.Guests) != 1 || got.Guests[0].Port != hostile || got.Guests[0].Switch != hostile {
				t.Errorf("-o %s has %q, %v, want %q", format, got, err, hostile)
			}
		}
	}
	t.Run("errors", func(t *testing.T) {
		for _, tt := range []struct {
			head string
			args []string
		}{
			{"HTTP/1.1 404 Not Found", []string{"names"}}, {"HTTP/1.1 400 Bad Request", []string{"names"}},
			{"HTTP/1.1 500 Internal Server Error", []string{"names"}}, {"HTTP/1.1 200 OK", []string{"watch", "--reconnect", "0"}},
		} {
			body, err := json.Marshal(map[string]string{"error": hostile})
			if err != nil {
				t.Fatal(err)
			}
			var out, errs bytes.Buffer
			Run("1.2.3", append(tt.args, "--socket", saying(t, tt.head+"\r\nConnection: close\r\n\r\n"+string(body)+"\n")), &out, &errs)
			if text := errs.String(); !strings.Contains(text, "forged") || strings.ContainsFunc(text, unsafe) || strings.Contains(text, "\n[INFO]") {
				t.Errorf("%s: %q", tt.head, text)
			}
		}
	})
	t.Run("completion", func(t *testing.T) {
		guests.Guests = append(guests.Guests, api.Guest{Port: "vm1", Switch: `a\b`})
		var out, errs bytes.Buffer
		Run("1.2.3", []string{"__complete", "guests", "--socket", socket, ""}, &out, &errs)
		if got := out.String(); got != "a\\b\nvm1\n:4\n" {
			t.Errorf("%q", got)
		}
	})
}

// A string of YAML equals the string in JSON, whatever it contains.
func FuzzYAML(f *testing.F) {
	for _, s := range []string{"", "true", "a: b # c", "a\nb\n", " \t", hostile, "\U000e0001\x7f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, word string) {
		text, err := json.Marshal(map[string]string{"a": word})
		if err != nil {
			t.Fatal(err)
		}
		out, err := yamlOf(text)
		if err != nil {
			t.Fatal(err)
		}
		var before, after struct{ A string }
		if json.Unmarshal(text, &before) != nil || yaml.Unmarshal(out, &after) != nil || before != after {
			t.Errorf("%q became %q by\n%s", before, after, out)
		}
		if strings.ContainsFunc(string(out), func(r rune) bool { return r != '\n' && !strconv.IsPrint(r) }) {
			t.Errorf("%q is not safe", out)
		}
	})
}

// YAML has the fields of JSON, in their order.
func TestYAML(t *testing.T) {
	text, err := json.Marshal(wellStatus())
	if err != nil {
		t.Fatal(err)
	}
	got, err := yamlOf(text)
	if err != nil || !strings.HasPrefix(string(got), "well: false\nproblems: []\nwarnings: []\nprocess:\n  version: 1.2.3 (CoreDNS-1.15.0)\n") {
		t.Errorf("%v\n%s", err, got)
	}
	if got, _ := yamlOf([]byte(`{"a":"true","b":true,"c":"12","d":null,"e":"x: y"}`)); string(got) != "a: \"true\"\nb: true\nc: \"12\"\nd: null\ne: 'x: y'\n" {
		t.Errorf("%s", got)
	}
}

func TestExitStatus(t *testing.T) {
	dir := t.TempDir()
	dead := filepath.Join(dir, "dead.sock")
	l, err := net.Listen("unix", dead)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	garbage := saying(t, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n]{}[")
	mute := saying(t, "") // as ovsdb-server is to a request that is no JSON
	other := saying(t, "SSH-2.0-OpenSSH\r\n")
	lost := saying(t, "HTTP/1.1 404 Not Found\r\nContent-Length: 14\r\n\r\npage not found")
	well := process(t, map[string]any{api.PathStatus: wellStatus(), api.PathNames: someNames(), api.PathGuests: someGuests()})
	said := ""
	for _, tc := range []struct {
		args   string
		status int
	}{
		{"", exitWell},
		{"--help", exitWell},
		{"--version", exitWell},
		{"nosuch", exitUsage},
		{"status more", exitUsage},
		{"status --nosuch", exitUsage},
		{"status -o xml", exitUsage},
		{"status -s " + filepath.Join(dir, "none.sock"), exitNoProcess},
		{"status -s " + dead, exitNoProcess},
		{"status -s " + file, exitNoProcess},
		{"status -s " + dir, exitNoProcess},
		{"status -s " + file + "/x", exitNoProcess},
		{"status -s " + mute, exitNoProcess},
		{"watch -s " + mute, exitNoProcess},
		{"status -s " + other, exitNoProcess},
		{"status -s " + lost, exitNoProcess},
		{"status -s " + garbage, exitNoProcess},
		{"doctor -s " + dead, exitNoProcess},
		{"names nobody -s " + well, exitUnwell},
		{"guests nobody -s " + well, exitUnwell},
	} {
		var out, errs bytes.Buffer
		status := Run("1.2.3", strings.Fields(tc.args), &out, &errs)
		if status != tc.status || (errs.Len() > 0) != (status != exitWell) {
			t.Errorf("%s: exit status %d, want %d: %q", tc.args, status, tc.status, errs.String())
		}
		said += fmt.Sprintf("puntctl %s\n%s", tc.args, errs.String())
	}
	golden.Check(t, said, dead, "DEAD", file, "FILE", garbage, "GARBAGE", mute, "MUTE", other, "OTHER", lost, "LOST", well, "WELL", dir, "DIR")
	t.Setenv(socketVariable, well)
	if status := Run("1.2.3", []string{"status"}, &bytes.Buffer{}, &bytes.Buffer{}); status != exitWell {
		t.Errorf("with %s: exit status %d", socketVariable, status)
	}
}

// saying returns a socket that says a text to each request, and hangs up.
func saying(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1000))
			_, _ = c.Write([]byte(text))
			c.Close()
		}
	}()
	return path
}

func TestColours(t *testing.T) {
	for _, colours := range []bool{true, false} {
		p := &page{colours: colours}
		p.table([]column{{"A", 0}, {"B", 0}}, [][]cell{{in(red, "éé"), said("")}, {said("x"), in(green, "\x1b]0;")}})
		want := "A   B\néé  -\nx   \\x1b]0;\n"
		if colours {
			want = "A   B\n\x1b[31méé\x1b[0m  -\nx   \x1b[32m\\x1b]0;\x1b[0m\n"
		}
		if got := p.text.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestSeconds(t *testing.T) {
	for s, want := range map[float64]string{0: "0s", 0.0124: "12ms", 2.46: "2.5s", 75: "1m15s", 3720: "1h2m", 93784: "1d2h"} {
		if got := seconds(s); got != want {
			t.Errorf("%v: %s, want %s", s, got, want)
		}
	}
}

// Traces as Open vSwitch writes them, shortened.
const (
	tracePunted = `Flow: udp,in_port=1
bridge("br-int")
----------------
 0. in_port=1, priority 100
29. udp,reg14=0x1,metadata=0x1, priority 200, cookie 0x70646e1543e326b7
    meter:1
    resubmit(,200)
    200. priority 10, cookie 0x70646e1543e326b7
            controller(id=1)
Datapath actions: drop
`
	traceDropped = `bridge("br-int")
 8. metadata=0x1, priority 50, cookie 0x1
22. udp,reg0=0x80/0x80,metadata=0x1,tp_dst=53, priority 2002, cookie 0xa3
    drop
Final flow: unchanged
Datapath actions: drop
`
	traceExpired = `29. udp,reg14=0x1,metadata=0x1, priority 200, cookie 0x70646e1543e326b7
    200. priority 0, cookie 0x70646e1543e326b7
            resubmit(,30)
30. priority 0, cookie 0x2
Datapath actions: 3
`
)

// tracing is a tracer of flows, of which each logical flow belongs to an ACL.
func tracing(trace func(flow string) (string, error)) *tracer {
	return &tracer{
		trace: func(_ context.Context, _, flow string) (string, error) { return trace(flow) },
		logicalFlow: func(context.Context, *api.Guest, hop) (*api.LogicalFlow, error) {
			return &api.LogicalFlow{Stage: "ls_in_acl", Hint: "5b4e9d10", Actions: "/* drop */"}, nil
		},
	}
}

func TestDoctor(t *testing.T) {
	for _, tc := range []struct {
		name  string
		trace func(flow string) (string, error)
	}{
		{"doctor", func(flow string) (string, error) {
			if strings.HasPrefix(flow, "in_port=2,") {
				return traceDropped, nil
			}
			return tracePunted, nil
		}},
		{"doctor-expired", func(string) (string, error) { return traceExpired, nil }},
		{"doctor-without-ovs", func(string) (string, error) { return "", &exec.Error{Name: "ovs-appctl", Err: exec.ErrNotFound} }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newClient(process(t, map[string]any{api.PathStatus: unwellStatus()}), io.Discard)
			s, err := c.status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			d, all := &diagnosis{}, someGuests()
			d.status(s)
			d.guests(s, all, false)
			d.traces(t.Context(), s, all.Guests, tracing(tc.trace))
			p := &page{}
			p.diagnosis(d)
			golden.File(t, "testdata/"+tc.name+".txt", p.text.String())
		})
	}
}

// doctor shows the remedies of the process. A process of an older version has none, and puntctl adds its own.
func TestDoctorRemedies(t *testing.T) {
	own, older := wellStatus(), wellStatus()
	own.Problems = []api.Problem{
		{Code: api.CodeLease, About: "br-int", Remedy: "do this", Commands: []string{"true 1"}, Docs: "docs/new.md"},
		{Code: "of-a-newer-version", About: "br-int", Remedy: "do that"},
	}
	older.Problems = []api.Problem{{Code: api.CodeLease, About: "br-int"}, {Code: "of-an-older-version", About: "br-int"}}
	for _, tc := range []struct {
		status    *api.Status
		has, lack []string
	}{
		{own, []string{"  do this\n", "  true 1\n", "  do that\n"}, []string{"upcall/show"}},
		{older, []string{"upcall/show\n"}, nil},
	} {
		var out, errs bytes.Buffer
		socket := otherVersion(t, map[string]any{api.PathStatus: tc.status, api.PathGuests: &api.Guests{}})
		if status := Run("1.2.3", []string{"doctor", "-s", socket}, &out, &errs); status != exitUnwell {
			t.Errorf("exit status %d, %s", status, errs.String())
		}
		for _, want := range tc.has {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q is not in %q", want, out.String())
			}
		}
		for _, never := range tc.lack {
			if strings.Contains(out.String(), never) {
				t.Errorf("%q is in %q", never, out.String())
			}
		}
	}
}

// An ACL does not drop a packet that is dropped behind the entry flows: the switch does not punt it.
func TestDoctorTracesBehind(t *testing.T) {
	found := ""
	for _, tc := range []struct{ name, trace string }{
		{"before", " 8. priority 50\n28. udp, priority 2002\n    drop\nDatapath actions: drop\n"},
		{"rejected", " 8. priority 50\n28. udp, priority 2002\n    controller(userdata=00.00.00.16)\nDatapath actions: userspace\n"},
		{"to another port", " 8. priority 50\n25. priority 99\n    set_field:0x4->reg15\n42. priority 0\n65. reg15=0x4\n    output:3\nDatapath actions: 4\n"},
		{"to a load balancer", " 8. priority 50\n20. priority 120\n    group:1\nDatapath actions: recirc(0x2)\n"},
		{"to a port behind", "29. priority 0\n36. priority 50\n    set_field:0x4->reg15\nDatapath actions: 4\n"},
		{"in the same table", " 8. priority 50\n29. udp, priority 2002\n    drop\nDatapath actions: drop\n"},
		{"behind", " 8. priority 50\n29. priority 0\n37. priority 0\n    drop\nDatapath actions: drop\n"},
		{"behind, on another bridge", " 8. priority 50\n29. priority 0\n37. priority 0\nbridge(\"br-ex\")\n-----\n 0. priority 0\n    NORMAL\nDatapath actions: 4\n"},
		{"behind a flow of its own", "29. udp, priority 200, cookie 0x70646e1543e326b7\n30. priority 0\n    drop\nDatapath actions: drop\n"},
	} {
		d := &diagnosis{}
		d.traces(t.Context(), wellStatus(), someGuests().Guests, tracing(func(string) (string, error) { return tc.trace, nil }))
		if len(d.Findings) != 2 {
			t.Fatalf("%s: %+v", tc.name, d.Findings)
		}
		found += fmt.Sprintf("%s: %s\n", tc.name, d.Findings[0].Text)
	}
	golden.Check(t, found)
}

// Guests that lack nothing but a resolver address are one finding, with the remedy for that.
func TestDoctorWithoutResolverAddress(t *testing.T) {
	const reason = "nowhere (address dhcp)"
	d := &diagnosis{}
	d.guests(wellStatus(), &api.Guests{Unserved: []api.Unserved{
		{Interface: "tap1", Port: "red-vm1", Reason: reason, Code: api.CodeNoAddress},
		{Interface: "tap2", Port: "red-vm2", Reason: reason, Code: api.CodeNoAddress},
	}}, false)
	if len(d.Findings) != 1 {
		t.Fatalf("%+v", d.Findings)
	}
	f := d.Findings[0]
	if f.Level != levelProblem || !strings.Contains(f.Text, `2: "red-vm1", "red-vm2": `+reason) || !strings.Contains(f.Remedy, "dns_server") {
		t.Errorf("%+v", f)
	}
}

// An interface that is not meant to be served is a problem only for an operator who asks about it.
func TestDoctorOfExpected(t *testing.T) {
	all := &api.Guests{Unserved: []api.Unserved{{Interface: "tap9", Port: "red-meta", Reason: "it is a localport", Expected: true}}}
	for named, want := range map[bool]int{true: 1, false: 0} {
		d := &diagnosis{}
		d.guests(wellStatus(), all, named)
		if len(d.Findings) != want || named && (d.Findings[0].Level != levelProblem || d.Findings[0].Code != api.CodeUnserved) {
			t.Errorf("named %v: %+v", named, d.Findings)
		}
	}
}

// A target of ovs-appctl that does not answer may be another one.
func TestDoctorNamesTheTarget(t *testing.T) {
	d := &diagnosis{}
	d.traces(t.Context(), wellStatus(), someGuests().Guests, tracing(func(string) (string, error) {
		return "", errors.New("ovs-appctl: exit status 1 cannot connect to ovs-vswitchd")
	}))
	if len(d.Findings) != 1 || !strings.Contains(d.Findings[0].Remedy, "--vswitchd") {
		t.Errorf("%+v", d.Findings)
	}
}

// doctor is well only if each guest it was asked about was traced, and each interface of a switch is served.
func TestDoctorExitStatus(t *testing.T) {
	red := api.Guest{Bridge: "br-int", Port: "red-vm1", Switch: "red", Resolvers: []string{"169.254.169.254:53"}}
	unserved := wellStatus()
	unserved.Problems = append(unserved.Problems, api.Problem{Code: api.CodeUnserved, About: "br-int", Text: "one, such as tap9"})
	for _, tc := range []struct {
		name   string
		status *api.Status
		all    api.Guests
		word   string
		want   int
		text   string // in the output
	}{
		{"no guest", wellStatus(), api.Guests{}, "", exitWell, "process 42"},
		{"not traced", wellStatus(), api.Guests{Guests: []api.Guest{red}}, "", exitNotTraced, "can't be traced"},
		{"counters missing", wellStatus(), api.Guests{Errors: []string{"bridge br-int: no counters"}}, "", exitWell, "no counters"},
		{"an interface of the switch", wellStatus(), api.Guests{Unserved: []api.Unserved{{Interface: "tap9", Switch: "red"}}}, "red", exitUnwell, "tap9"},
		{"an interface of any switch", unserved, api.Guests{Guests: []api.Guest{red}, Unserved: []api.Unserved{{Interface: "tap9"}}}, "red", exitUnwell, "tap9"},
		{"an interface of another switch", unserved, api.Guests{Guests: []api.Guest{red}, Unserved: []api.Unserved{{Interface: "tap9", Switch: "blue"}}}, "red", exitNotTraced, "red-vm1"},
		{"an expected one", wellStatus(), api.Guests{Guests: []api.Guest{red}, Unserved: []api.Unserved{{Interface: "tap9", Switch: "red", Expected: true}}}, "red", exitNotTraced, "red-vm1"},
	} {
		args := []string{"doctor", "-s", process(t, map[string]any{api.PathStatus: tc.status, api.PathGuests: &tc.all})}
		if tc.word != "" {
			args = append(args, tc.word)
		}
		var out, errs bytes.Buffer
		if status := Run("1.2.3", args, &out, &errs); status != tc.want || !strings.Contains(out.String(), tc.text) {
			t.Errorf("%s: exit status %d, want %d; %s%s", tc.name, status, tc.want, &out, &errs)
		}
	}
}

// A problem of a bridge is reported for an unknown port, too.
func TestDoctorUnknownPort(t *testing.T) {
	unwell := process(t, map[string]any{api.PathStatus: unwellStatus(), api.PathGuests: &api.Guests{}})
	well := process(t, map[string]any{api.PathStatus: wellStatus(), api.PathGuests: &api.Guests{}})
	for _, tc := range []struct {
		socket string
		out    []string // in this order
		errs   string
	}{
		{unwell, []string{"br-int: ", `"red-vm1": `}, ""},
		{well, nil, `"red-vm1": `},
	} {
		var out, errs bytes.Buffer
		if status := Run("1.2.3", []string{"doctor", "red-vm1", "-s", tc.socket}, &out, &errs); status != exitUnwell {
			t.Errorf("exit status %d", status)
		}
		at := 0
		for _, want := range tc.out {
			i := strings.Index(out.String()[at:], want)
			if i < 0 {
				t.Fatalf("%q is not in %q", want, out.String()[at:])
			}
			at += i
		}
		if !strings.Contains(errs.String(), tc.errs) {
			t.Errorf("%q, want %q", errs.String(), tc.errs)
		}
	}
}

func TestRoutes(t *testing.T) {
	reasons := ""
	for _, tc := range []struct {
		dhcp   api.DHCP
		routed bool
	}{
		{api.DHCP{}, false},
		{api.DHCP{Router: "10.0.0.1"}, true},
		{api.DHCP{CIDR: "169.254.0.0/16"}, true},
		{api.DHCP{Router: "10.0.0.1", Routes: "{10.9.0.0/16, 10.0.0.9}"}, false},
		{api.DHCP{Routes: "{0.0.0.0/0,10.0.0.1}"}, true},
		{api.DHCP{Routes: "{169.254.169.254/32,0.0.0.0, 0.0.0.0/0,10.0.0.1}"}, true},
		{api.DHCP{Routes: "{169.254.169.254,10.0.0.1}"}, true},
	} {
		a := (&api.Guest{Resolvers: []string{"169.254.169.254:53"}}).DHCPResolvers()[0]
		why := noRoute(&tc.dhcp, a)
		if (why == "") != tc.routed {
			t.Errorf("%+v: %q, want a route: %v", tc.dhcp, why, tc.routed)
		}
		if why == "" {
			continue
		}
		reasons += why + "\n"
		after := tc.dhcp
		lines := setRoute(&tc.dhcp, a)
		if len(lines) != 1 {
			t.Errorf("%+v: the remedy is %q", tc.dhcp, lines)
			continue
		}
		_, after.Routes, _ = strings.Cut(strings.TrimSuffix(lines[0], "'"), "='")
		if noRoute(&after, a) != "" {
			t.Errorf("%+v: the remedy %s gives none either", tc.dhcp, after.Routes)
		}
	}
	golden.Check(t, reasons)
}

// pairs are what a remedy may put between the quotation marks of a shell.
var pairs = regexp.MustCompile(`^"\{([0-9A-Fa-f.:]+(/[0-9]+)?,[0-9A-Fa-f.:]+(, )?)+\}"$`)

// FuzzSetRoute has a tenant's constants of OVN in the options router and classless_static_route. A remedy
// has nothing but addresses and prefixes in it, as an operator pastes it into a shell, and gives a route.
func FuzzSetRoute(f *testing.F) {
	for _, routes := range []string{"", "{10.9.0.0/16, 10.0.0.9}", "{10.9.0.0/16}", "{10.9.0.0/16, fe80::1%'; reboot #}", "{$(reboot),10.0.0.1}", "::/0 ::1 0.0.0.0/0 ::ffff:1.2.3.4"} {
		f.Add("10.0.0.1", routes)
		f.Add("fe80::1%'; reboot #", routes)
	}
	a := netip.MustParseAddr("169.254.169.254")
	f.Fuzz(func(t *testing.T, router, routes string) {
		dhcp := &api.DHCP{Row: "row", Router: router, Routes: routes}
		const begin, end = `ovn-nbctl set DHCP_Options row options:classless_static_route='`, `'`
		for _, line := range setRoute(dhcp, a) {
			text := strings.TrimSuffix(strings.TrimPrefix(line, begin), end)
			if begin+text+end != line || !pairs.MatchString(text) {
				t.Errorf("%q", line)
			}
			if reason := noRoute(&api.DHCP{Routes: text}, a); reason != "" {
				t.Errorf("%s gives no route: %s", line, reason)
			}
		}
	})
}

func TestErrorsUnwrap(t *testing.T) {
	if err := withRemedy(&exitError{status: exitNoProcess, err: os.ErrNotExist}, "/x"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// Each command takes a guest by its logical port, its interface, an address or a MAC address.
func TestWordsForGuests(t *testing.T) {
	const red = "red-vm1\x1b[2J"
	s, asked := control.New(), ""
	s.AddStatus(func(_ context.Context, to *api.Status) { *to = *wellStatus() })
	s.Answer(api.PathGuests, func(context.Context, url.Values) (any, error) { return someGuests(), nil })
	s.Answer(api.PathNames, func(_ context.Context, p url.Values) (any, error) {
		if asked = p.Get("of"); asked != "blue-vm1" && asked != red {
			return nil, control.NotFound("there is no %q", asked)
		}
		return someNames(), nil
	})
	socket, asking := streamsOf(t, s, api.PathWatch, someQueries()...)
	for _, tc := range []struct {
		word, want string
		one        bool
	}{
		{"blue-vm1", "blue-vm1", true},
		{"tap1", red, true},
		{"fd00:1::11", red, true},
		{"FD00:1:0::11", red, true},
		{"10.0.1.11", "blue-vm1 " + red, false},
		{"02-00-00-00-01-11", "blue-vm1 " + red, false},
		{"nobody", "", false},
	} {
		run := func(args ...string) (out string, status int) {
			var b, errs bytes.Buffer
			status = Run("1.2.3", append(args, "--socket", socket), &b, &errs)
			return b.String(), status
		}
		out, _ := run("guests", tc.word, "-o", "json")
		var guests api.Guests
		_ = json.Unmarshal([]byte(out), &guests) // there is no guest without any
		var ports []string
		for _, g := range guests.Guests {
			ports = append(ports, g.Port)
		}
		if got := strings.Join(ports, " "); got != tc.want {
			t.Errorf("guests %s: %q, want %q", tc.word, got, tc.want)
		}
		if _, status := run("names", tc.word); (status == exitWell) != tc.one || tc.one && asked != tc.want {
			t.Errorf("names %s: exit status %d, asked for %q", tc.word, status, asked)
		}
		run("watch", "--reconnect", "0", "--port", tc.word)
		if got := strings.Join((<-asking)["port"], " "); got != cmp.Or(tc.want, tc.word) {
			t.Errorf("watch --port %s: %q", tc.word, got)
		}
	}
}
