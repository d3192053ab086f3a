// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/test/lab"
)

// A suite or a part that fails ends neither the others nor what they have measured, and the page names it with
// its reason.
func TestFailedSuite(t *testing.T) {
	b := &bench{t: new(lab.Program), extent: smallest}
	var ran []string
	does := func(name string, f func(*bench)) suite {
		return suite{name: name, run: func(b *bench) {
			ran = append(ran, name)
			f(b)
		}}
	}
	written := 0
	err := b.runSuites([]suite{
		does("one", func(b *bench) { b.report.table("one").put(pPuntdns, 1) }),
		does("broken", func(b *bench) { b.t.Fatalf("no %s\nits log", "switch") }),
		does("impossible", func(b *bench) { b.report.leaveOut("rows of a root: no network") }),
		// Bars need more rows of its table.
		does("short", func(b *bench) { b.report.table(tChange).put(pPuntdns, 1) }),
		does("last", func(b *bench) { b.report.table("last").put(pPuntdns, 1) }),
	}, func() error { written++; return nil })
	if err != nil || written != 5 {
		t.Errorf("%v, written %d times", err, written)
	}
	if want := []string{"one", "broken", "impossible", "short", "last"}; !slices.Equal(ran, want) {
		t.Errorf("%q ran, want %q", ran, want)
	}
	if len(b.report.measured("one").peers) != 1 || len(b.report.measured("last").peers) != 1 {
		t.Error("rows of the others are missing")
	}
	const want = "**Failed**: broken: no switch.\n\n" +
		"**Failed**: short: no row for a commit in Northbound: puntdns to OVN's own DNS.\n\n" +
		"Left out: rows of a root: no network.\n\n"
	if got := b.report.notMeasured(); got != want {
		t.Errorf("the page has\n%s, want\n%s", got, want)
	}

	ran, b.report.failed = nil, nil
	b.parts = map[string]bool{"tcp": true, "cached": true}
	parts := suite{name: "before", parts: []suite{
		does("udp", nil), does("tcp", func(b *bench) { b.t.Fatalf("no switch") }), does("cached", func(*bench) {}),
	}}
	if err := b.runSuites([]suite{parts, does("last", func(*bench) {})}, func() error { return nil }); err != nil {
		t.Error(err)
	}
	if want := []string{"tcp", "cached", "last"}; !slices.Equal(ran, want) {
		t.Errorf("%q ran, want %q", ran, want)
	}
	if want := []string{"before, part tcp: no switch"}; !slices.Equal(b.report.failed, want) {
		t.Errorf("%q failed, want %q", b.report.failed, want)
	}

	ran = nil
	full := errors.New("no space")
	if err := b.runSuites([]suite{does("one", func(*bench) {}), does("two", func(*bench) {})}, func() error { return full }); !errors.Is(err, full) || len(ran) != 1 {
		t.Errorf("%v after %q, want an error after one suite", err, ran)
	}
}

func TestChooseSuites(t *testing.T) {
	all := strings.Join(suiteNames(suites), ",")
	for _, tt := range []struct{ only, want, err string }{
		{"", all, ""},
		{"before", "before", ""},
		{"tcp,local", "local,tcp", ""},
		{"local,lokal", "", `no suite "lokal": expected some of ` + strings.Join(suiteNames(suites), ", ")},
		{"local,", "", `no suite "": expected some of ` + strings.Join(suiteNames(suites), ", ")},
	} {
		chosen, err := chooseSuites(tt.only)
		var names []string
		for _, s := range chosen {
			names = append(names, s.name)
		}
		if got := strings.Join(names, ","); got != tt.want || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
			t.Errorf("%q: %q, %v", tt.only, got, err)
		}
	}
}

func TestChooseParts(t *testing.T) {
	const cloud, before = "cluster,relays,requests,server", "cached,hijack,million,tcp,udp"
	for _, tt := range []struct{ parts, want string }{
		{"", before + "," + cloud},
		{"bars", "bars," + before},
		{"newest,server", before + ",newest,server"},
		{"udp,tcp", cloud + ",tcp,udp"},
		{"udp,bars", "bars,udp"},
		{"bar", ""},
		{"udp,", ""},
	} {
		chosen, err := chooseParts(tt.parts)
		got, want := slices.Sorted(maps.Keys(chosen)), strings.Split(tt.want, ",")
		if tt.want == "" {
			want = nil
		}
		slices.Sort(want)
		if !slices.Equal(got, want) || (err == nil) != (tt.want != "") {
			t.Errorf("%q: %q, %v", tt.parts, got, err)
		}
	}
}

// The page compares what both versions have.
func TestRatiosToBefore(t *testing.T) {
	r := &report{}
	if got := r.ratiosToBefore(); got != "" {
		t.Errorf("without the suite: %q", got)
	}
	for _, v := range []float64{30, 10, 20} {
		r.table(bLocal+bRate).put(pPuntdns, v)
		r.table(bLocal+bRate).put(pBefore, 2*v)
	}
	r.table(bLocal+bCPU).put(pPuntdns, 1)
	r.table(tLocal).put(pPuntdns, 1)
	if got := r.ratiosToBefore(); !strings.HasSuffix(got, "|---|---|---|---|\n| local names, queries/s | 20.0 | 40.0 | 0.500 |\n") {
		t.Errorf("%s", got)
	}
}

// In the other root the checkout is read-only: the program writes nothing.
func TestElsewhereWritesNothing(t *testing.T) {
	lab.Need(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args   []string
		status int
		prints string
	}{
		{[]string{"-elsewhere", "-only", "before"}, 0, `{"Versions":`},
		{[]string{"-only", "befor"}, 1, `no suite "befor"`},
		{[]string{"-only", "before", "-parts", "upd"}, 1, `no part "upd"`},
	} {
		bench := exec.CommandContext(t.Context(), self, tt.args...)
		bench.Dir = t.TempDir()
		bench.Env = append(os.Environ(), asProgram+"=1")
		out, _ := bench.CombinedOutput() // the status says it
		if status := bench.ProcessState.ExitCode(); status != tt.status || !strings.Contains(string(out), tt.prints) {
			t.Errorf("%q: status %d\n%s", tt.args, status, out)
		}
		if made, err := filepath.Glob(filepath.Join(bench.Dir, "*")); err != nil || len(made) > 0 {
			t.Errorf("%q made %q: %v", tt.args, made, err)
		}
	}
}
