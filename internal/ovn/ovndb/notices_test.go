// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/testkit"
)

func TestNotices(t *testing.T) {
	web, id := ovn.SwitchRef{Name: "web"}, ovn.SwitchRef{ID: origin.Network{15: 1}}
	several := occurrence{count: 12, ids: slices.Repeat([]origin.Network{{15: 1}}, maxListed)}
	network := func(r ovn.SwitchRef, o occurrence) logged {
		return logged{networks: map[ovn.SwitchRef]occurrence{r: o}}
	}
	compared := func(o occurrence) logged { return logged{compared: map[string]occurrence{"web": o}} }
	for _, tt := range []struct {
		name       string
		prev, next logged
		want       string // what the line contains, "" for no line
	}{
		{"nobody asks", logged{}, logged{}, ""},
		{"there", logged{}, network(web, occurrence{count: 1}), ""},
		{"missing", logged{}, network(web, occurrence{}), `true no logical switch is named "web"`},
		{"missing, by UUID", logged{}, network(id, occurrence{}), "true no logical switch has the UUID 00000000-0000-0000-0000-000000000001"},
		{"missing still", network(web, occurrence{}), network(web, occurrence{}), ""},
		{"it comes", network(web, occurrence{}), network(web, occurrence{count: 1}), `false a logical switch is named "web" now`},
		{"it goes", network(web, occurrence{count: 1}), network(web, occurrence{}), "true no logical switch"},
		{"several", logged{}, network(web, several), `true 12 logical switches are named "web"`},
		{"another one", network(web, occurrence{count: 2}), network(web, several), ""},
		{"from none to several", network(web, occurrence{}), network(web, several), "and 2 more), though"},
		{"one is left", network(web, several), network(web, occurrence{count: 1}), "false just one logical switch"},
		{"nobody asks any more", network(web, several), logged{}, ""},
		{"compared, there", logged{}, compared(occurrence{count: 1}), ""},
		{"compared, missing", logged{}, compared(occurrence{}), ""},
		{"compared, several", logged{}, compared(several), "true 12 logical switches"},
		{"compared, several still", compared(occurrence{count: 2}), compared(several), ""},
		{"compared, over", compared(several), compared(occurrence{}), "false 0 logical switches that are read here"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, n := range notices(tt.prev, tt.next) {
				got = append(got, fmt.Sprint(n.warning, " ", n.text))
			}
			if tt.want == "" && len(got) > 0 || tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// What is logged under the mutex is written once that is free, in order.
func TestLogMutex(t *testing.T) {
	const goroutines, lines = 8, 100
	var m logMutex
	written := new(testkit.Lines)
	m.log = lockingLogger{written, &m}
	n := 0
	var wait sync.WaitGroup
	for range goroutines {
		wait.Go(func() {
			for range lines {
				m.Lock()
				m.Infof("%d", n)
				n++
				m.Unlock()
			}
		})
	}
	wait.Wait()
	all := written.All()
	if len(all) != goroutines*lines {
		t.Fatalf("%d lines", len(all))
	}
	for i, line := range all {
		if line != fmt.Sprint("INFO ", i) {
			t.Fatalf("line %d is %q", i, line)
		}
	}
}

// lockingLogger takes the mutex for each line.
type lockingLogger struct {
	Logger
	m *logMutex
}

func (l lockingLogger) Infof(format string, args ...any) {
	l.m.Lock()
	defer l.m.Unlock()
	l.Logger.Infof(format, args...)
}
