// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// A reload to another scope takes nothing away: neither does it deny a name that both
// scopes have, nor leave a guest unserved until all is read that the new scope needs.
func TestScopeReload(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, databases string }{
		{"southbound", "southbound $SB"},
		{"both", "southbound $SB\n        northbound $NB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			testScopeReload(t, tt.databases)
		})
	}
}

func testScopeReload(t *testing.T, databases string) {
	l := lab.New(t, lab.Options{})
	upstream := l.Upstream() // it denies every name
	var quick []*questioner
	var vm *lab.Guest // one of them
	for i, tenant := range []string{"red", "blue"} {
		var ports []lab.RouterPort
		for j := range 3 { // the second and the third have no guest here
			sw, third := fmt.Sprintf("%s%d", tenant, j), 10*i+j+1
			l.AddSwitch(sw)
			ports = append(ports, lab.RouterPort{
				Switch: sw, MAC: fmt.Sprintf("02:00:00:00:%02x:01", third), Networks: []string{fmt.Sprintf("10.0.%d.1/24", third)},
			})
		}
		l.AddRouter(tenant, ports...)
		l.AddDNS(map[string]string{"db.internal": "10.0.0.21"}, tenant+"0")
		l.AddDNS(map[string]string{"far.internal": "10.0.0.22"}, tenant+"2")
		for j := range 2 {
			g := l.Node.AddGuest(lab.Guest{
				Name: fmt.Sprintf("%s-vm%d", tenant, j), Switch: tenant + "0", MAC: fmt.Sprintf("02:00:00:00:%02x:%02x", 10*i+1, 0x11+j),
				Addrs:  lab.Prefixes(fmt.Sprintf("10.0.%d.%d/24", 10*i+1, 11+j)),
				Routes: []string{"169.254.169.254 dev eth0"}, PortSecurity: true, Hostname: fmt.Sprintf("vm%d", j),
			})
			vm, quick = g, append(quick, questions(t, g, resolver4))
		}
	}
	l.Sync()
	corefileWith := func(scope string) string {
		return corefile(l, strings.NewReplacer("DATABASES", databases, "SCOPE", scope, "LIMITS", unlimited(""), "UPSTREAM", upstream.Addr).Replace(`. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        LIMITS
    }
    ovnhosts {
        DATABASES
        scope SCOPE
        fallthrough
    }
    forward . UPSTREAM
    prometheus 127.0.0.1:9153
    ready 127.0.0.1:8181 {
        monitor continuously
    }
    errors
}
`))
	}
	s := start(t, l, corefileWith("switch"))
	s.ready(200)
	n := &reloaded{l: l, upstream: upstream, quick: quick}
	ask := func(i int) error {
		q := quick[i%len(quick)]
		if !q.below(window/len(quick), wait) {
			return fmt.Errorf("no answer in %s", wait)
		}
		return q.ask("db.internal.", dns.TypeA, ofSurvivor)
	}
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error, 1)
	go func() { failed <- pace(ctx, 1000, ask) }()
	placed := len(s.Log())
	for range 3 {
		for _, scope := range []string{"router", "switch"} {
			n.change(s, corefileWith(scope), "Reloading complete", func() error { return s.Signal(syscall.SIGUSR1) })
			want := map[string]string{"router": "NOERROR 30 10.0.0.22", "switch": "NXDOMAIN"}[scope]
			expect(t, vm, want, "far.internal", "@"+resolver4, "+time=5")
		}
	}
	cancel()
	if err := <-failed; err != nil {
		t.Error(err)
	}
	var all findings
	end := time.Now().Add(wait)
	for _, q := range quick {
		all.add(q.finish(time.Until(end)))
	}
	t.Log(all)
	all.clean(t, "all")
	if asked := upstream.Count("db.internal"); asked > 0 {
		t.Errorf("the upstream was asked %d times for a name of the guests' own", asked)
	}
	if log := s.Log()[placed:]; strings.Contains(log, "guests: ") {
		t.Errorf("guests were given up:\n%s", log)
	}
	s.endWell()
}
