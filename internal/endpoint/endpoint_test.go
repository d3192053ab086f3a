// SPDX-License-Identifier: Apache-2.0

package endpoint_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/internal/endpoint"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		in        string
		want      endpoint.Endpoint
		canonical string // if not in
	}{
		{in: "unix:/run/db.sock", want: endpoint.Endpoint{Network: "unix", Address: "/run/db.sock"}},
		{in: "unix:a:b", want: endpoint.Endpoint{Network: "unix", Address: "a:b"}},
		{in: "tcp:192.0.2.1:6640", want: endpoint.Endpoint{Network: "tcp", Address: "192.0.2.1:6640"}},
		{in: "tcp:[2001:db8::1]:6640", want: endpoint.Endpoint{Network: "tcp", Address: "[2001:db8::1]:6640"}},
		{in: "tcp:[fe80::1%eth0]:6640", want: endpoint.Endpoint{Network: "tcp", Address: "[fe80::1%eth0]:6640"}},
		{in: "ssl:db.example:6642", want: endpoint.Endpoint{Network: "tcp", Address: "db.example:6642", TLS: true}},
		{in: "tcp:db:06640", want: endpoint.Endpoint{Network: "tcp", Address: "db:6640"}, canonical: "tcp:db:6640"},
		{in: "tcp:[db]:1", want: endpoint.Endpoint{Network: "tcp", Address: "db:1"}, canonical: "tcp:db:1"},
		{in: "ptcp:6653", want: endpoint.Endpoint{Network: "tcp", Address: ":6653", Listen: true}},
		{in: "ptcp:0", want: endpoint.Endpoint{Network: "tcp", Address: ":0", Listen: true}},
		{in: "ptcp:6653:127.0.0.1", want: endpoint.Endpoint{Network: "tcp", Address: "127.0.0.1:6653", Listen: true}},
		{in: "pssl:6653:[::1]", want: endpoint.Endpoint{Network: "tcp", Address: "[::1]:6653", TLS: true, Listen: true}},
	} {
		t.Run(tt.in, func(t *testing.T) {
			got, err := endpoint.Parse(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			canonical := tt.canonical
			if canonical == "" {
				canonical = tt.in
			}
			if got.String() != canonical {
				t.Errorf("String() = %q, want %q", got, canonical)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", "expected unix:PATH"},
		{"/run/db.sock", "expected unix:PATH"},
		{"unix:", "expected a path"},
		{"udp:1.2.3.4:5", `unknown method "udp"`},
		{"tcp:192.0.2.1", "expected HOST:PORT"},
		{"tcp::6640", "expected a host"},
		{"tcp:2001:db8::1:6640", "[brackets]"},
		{"tcp:h:0", "from 1 to 65535"},
		{"tcp:h:65536", "from 1 to 65535"},
		{"tcp:h:http", "from 1 to 65535"},
		{"tcp://192.0.2.1:6642", "expected no //"},
		{"ssl:a b:1", "expected an address or a name"},
		{"ptcp:", "from 0 to 65535"},
		{"ptcp:1:", "expected PORT or PORT:HOST"},
		{"ptcp:1:::1", "[brackets]"},
		{"pssl:x:127.0.0.1", "from 0 to 65535"},
	} {
		t.Run(tt.in, func(t *testing.T) {
			got, err := endpoint.Parse(tt.in)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %+v, %v, want an error with %q", got, err, tt.want)
			}
		})
	}
	if _, err := endpoint.ParseActive([]string{"tcp:h:1", "nothing"}); err == nil {
		t.Error("ParseActive takes a bad endpoint")
	}
}

// A comma between two words is as good as one within a word. Nothing else is left out.
func TestParseActiveCommas(t *testing.T) {
	const a, b, c = "tcp:h:1", "ssl:[::1]:2", "unix:/c,d"
	for _, tt := range []struct {
		words []string
		want  []string // nil for an error
	}{
		{[]string{a, b, c}, []string{a, b, c}},
		{[]string{a + "," + b, c}, []string{a, b, c}},
		{[]string{a + ",", b + ",", c}, []string{a, b, c}},
		{[]string{a, "," + b, ",", c}, []string{a, b, c}},
		{[]string{c + ",", a + "," + b}, []string{c, a, b}},
		{[]string{a, "unix:/c,"}, []string{a, "unix:/c,"}},
		{[]string{"unix:/c,," + a}, []string{"unix:/c,", a}},
		{[]string{a, ",", ",", b}, nil},
		{[]string{a + ",", "," + b}, nil},
		{[]string{a + ",,", b}, nil},
		{[]string{a, "", b}, nil},
		{[]string{"," + a, b}, nil},
		{[]string{a, b + ","}, nil},
		{[]string{a, ","}, nil},
		{[]string{","}, nil},
	} {
		t.Run(fmt.Sprintf("%q", tt.words), func(t *testing.T) {
			all, err := endpoint.ParseActive(tt.words)
			if (err == nil) != (tt.want != nil) {
				t.Fatalf("%v, %v", all, err)
			}
			var got []string
			for _, e := range all {
				got = append(got, e.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if again, err := endpoint.ParseEach(got); err != nil || !slices.Equal(again, all) {
				t.Errorf("what they print is %v: %v", again, err)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"unix:/x", "tcp:h:1", "ssl:[::1]:2", "ptcp:3", "pssl:4:[::]", "ptcp:5:h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, err := endpoint.Parse(s)
		if err != nil {
			return
		}
		again, err := endpoint.Parse(e.String())
		if err != nil || again != e {
			t.Fatalf("%q: %+v, but %q: %+v, %v", s, e, e.String(), again, err)
		}
	})
}

func TestDialAndOpenRefuse(t *testing.T) {
	ctx := context.Background()
	for _, tt := range []struct {
		name, endpoint, want string
		open                 bool
	}{
		{"dial a listener", "ptcp:1", "cannot be dialled", false},
		{"dial without certificates", "ssl:localhost:1", "needs a certificate", false},
		{"open an active endpoint", "tcp:localhost:1", "not a listening endpoint", true},
		{"open without certificates", "pssl:0", "needs a certificate", true},
		{"no such socket", "unix:" + filepath.Join(t.TempDir(), "none"), "no such file", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, err := endpoint.Parse(tt.endpoint)
			if err != nil {
				t.Fatal(err)
			}
			if tt.open {
				_, err = e.Open(ctx, nil)
			} else {
				_, err = e.Dial(ctx, nil)
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), tt.endpoint) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestBackoff(t *testing.T) {
	b := endpoint.Backoff{Min: 100 * time.Millisecond, Max: time.Second}
	for round := range 2 {
		for i, full := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
			full *= time.Millisecond
			if d := b.Next(); d < full/2 || d > full {
				t.Errorf("round %d: delay %d is %v, want %v to %v", round, i, d, full/2, full)
			}
		}
		b.Reset()
	}
	if d := new(endpoint.Backoff).Next(); d != 0 {
		t.Errorf("the zero value waits %v", d)
	}
}

func TestBackoffWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := endpoint.Backoff{Min: time.Hour, Max: time.Hour}
		start := time.Now()
		if err := b.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d < 30*time.Minute || d > time.Hour {
			t.Errorf("waited %v", d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := b.Wait(ctx); err != context.DeadlineExceeded {
			t.Errorf("got %v", err)
		}
	})
}

func TestCheckSocket(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "there")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, endpoint string
		byDefault, ok  bool
	}{
		{"there", "unix:" + there, false, true},
		{"not there", "unix:" + dir + "/no", false, false},
		{"not there, a default", "unix:" + dir + "/no", true, false},
		{"no folder", "unix:" + dir + "/no/no", false, false},
		{"no folder, a default", "unix:" + dir + "/no/no", true, true},
		{"not a folder", "unix:" + there + "/no", false, true}, // the start says that
		{"not a socket", "tcp:127.0.0.1:1", false, true},
	} {
		e, err := endpoint.Parse(tt.endpoint)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.CheckSocket(tt.byDefault); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
