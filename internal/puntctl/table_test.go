// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/puntdns/puntdns/internal/control/api"
)

func TestCutTo(t *testing.T) {
	for _, tt := range []struct {
		text  string
		width int
		want  string
	}{
		{"red-vm1", 7, "red-vm1"}, {"red-vm1", 6, "red-v…"}, {"日本語", 6, "日本語"}, {"日本語", 5, "日本…"}, {"日本語", 4, "日…"},
		{"e\u0301e\u0301e\u0301", 2, "e\u0301…"}, {"👩‍👩‍👧x", 2, "…"},
	} {
		if got := cutTo(tt.text, tt.width); got != tt.want || widthOf(got) > tt.width {
			t.Errorf("%q in %d columns: %q, want %q", tt.text, tt.width, got, tt.want)
		}
	}
}

func TestWrapTo(t *testing.T) {
	for _, tt := range []struct {
		text  string
		width int
		want  []string
	}{
		{"", 3, []string{""}}, {"a b", 3, []string{"a b"}}, {"aa bb cc", 5, []string{"aa bb", "cc"}}, {"aa bb", 4, []string{"aa", "bb"}},
		{"a bbbbbbb c", 3, []string{"a", "bbb", "bbb", "b c"}}, {"日本 語", 4, []string{"日本", "語"}}, {"日本", 1, []string{"日本"}},
	} {
		if got := wrapTo(tt.text, tt.width); !slices.Equal(got, tt.want) {
			t.Errorf("%q in %d columns: %q, want %q", tt.text, tt.width, got, tt.want)
		}
	}
}

func TestFit(t *testing.T) {
	for _, tt := range []struct {
		name          string
		widths, least []int
		room          int
		want          []int
	}{
		{"room enough", []int{10, 10}, []int{8, 8}, 22, []int{10, 10}},
		{"the widest first", []int{30, 12, 4}, []int{8, 8, 0}, 40, []int{20, 12, 4}},
		{"then all", []int{30, 30, 4}, []int{8, 8, 0}, 30, []int{11, 11, 4}},
		{"no less than the least", []int{30, 30, 4}, []int{8, 9, 0}, 10, []int{8, 9, 4}},
	} {
		if fit(tt.widths, tt.least, tt.room); !slices.Equal(tt.widths, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, tt.widths, tt.want)
		}
	}
}

// A table has the columns of -o wide only with it. A terminal cuts and wraps cells, and counts the columns that
// a character takes.
func TestTable(t *testing.T) {
	columns := []column{{"PORT", cut}, {"VLAN", wide}, {"REASON", wrap}}
	rows := [][]cell{{said("日本語日本語日本語"), said("7"), said("a reason that is longer than the terminal is wide")}, {said("vm"), said("8"), said("")}}
	for _, tt := range []struct {
		name string
		page page
		want string
	}{
		{"a pipe", page{}, "PORT                REASON\n日本語日本語日本語  a reason that is longer than the terminal is wide\nvm                  -\n"},
		{"wide", page{wide: true}, "PORT                VLAN  REASON\n日本語日本語日本語  7     a reason that is longer than the terminal is wide\nvm                  8     -\n"},
		{"a terminal", page{columns: 36}, "PORT        REASON\n日本語日…   a reason that is longer\n            than the terminal is\n            wide\nvm          -\n"},
	} {
		if tt.page.table(columns, rows); tt.page.text.String() != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, tt.page.text.String(), tt.want)
		}
	}
}

// longNames returns the answers of a process whose ports and switches have names as in Neutron.
func longNames() map[string]any {
	const port, network = "f3b8a0d2-5c1e-4a7b-9d7e-0123456789ab", "neutron-9a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
	guests, names := someGuests(), someNames()
	for i := range guests.Guests {
		guests.Guests[i].Port, guests.Guests[i].Switch = port, network
	}
	names.Networks[0].Switch, names.Networks[0].Names[0].Name = network, "a-name-that-is-quite-long.of-a-tenant.cloud.internal."
	return map[string]any{api.PathStatus: unwellStatus(), api.PathGuests: guests, api.PathNames: names}
}

// Each table fits a terminal of 80 columns. Nothing is cut for -o wide, or for a pipe.
func TestWidth(t *testing.T) {
	const terminalColumns = 80
	top, query := someTop(), *someQueries()[0].(*api.WatchLine)
	top.Guests.Entries[0].Port, top.Guests.Entries[0].Switch = strings.Repeat("p", 36), strings.Repeat("s", 44)
	top.Names.Entries[0].Name, top.Names.Entries[0].Switch = strings.Repeat("n", 60)+".", strings.Repeat("s", 44)
	query.Port, query.Name = strings.Repeat("p", 36), strings.Repeat("日", 40)+"."
	answers := longNames()
	o := func(format string) *options { return &options{format: format} }
	for _, tt := range []struct {
		name string
		show func(*page)
		// whole is text that a terminal cuts.
		whole string
	}{
		{"guests", func(p *page) { p.guests(answers[api.PathGuests].(*api.Guests)) }, "0123456789ab"},
		{"names", func(p *page) { p.names(answers[api.PathNames].(*api.Names)) }, "cloud.internal."},
		{"status", func(p *page) {
			s := answers[api.PathStatus].(*api.Status)
			p.bridge(&s.Bridges[0])
			p.databases(s.Databases)
		}, ""},
		{"top", func(p *page) { p.top(top, api.TopKinds) }, strings.Repeat("n", 60)},
		{"watch", func(p *page) {
			w := &watcher{options: o(formatTable), page: p}
			w.begin()
			w.row(queryCells(&query))
		}, strings.Repeat("日", 40)},
	} {
		for _, p := range []*page{{columns: terminalColumns}, {}, {wide: true}} {
			tt.show(p)
			text := p.text.String()
			if whole := strings.Contains(text, tt.whole) && !strings.Contains(text, ellipsis); p.columns == 0 && !whole || p.columns > 0 && whole && tt.whole != "" {
				t.Errorf("%s in %d columns is cut: %v\n%s", tt.name, p.columns, !whole, text)
			}
			for line := range strings.Lines(text) {
				if n := widthOf(strings.TrimSuffix(line, "\n")); p.columns > 0 && n > p.columns {
					t.Errorf("%s: a line has %d columns:\n%s", tt.name, n, text)
				}
			}
		}
	}
}

// A page has the width of its terminal, unless it is wide.
func TestPageOfTerminal(t *testing.T) {
	m := newTerminal(t)
	if err := unix.IoctlSetWinsize(int(m.device.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 10, Col: 97}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		format  string
		w       io.Writer
		columns int
	}{{formatTable, m.device, 97}, {formatWide, m.device, 0}, {formatTable, new(bytes.Buffer), 0}} {
		if p := (&options{format: tt.format}).newPage(tt.w); p.columns != tt.columns || p.wide != (tt.format == formatWide) {
			t.Errorf("%s on %T: %+v", tt.format, tt.w, p)
		}
	}
}
