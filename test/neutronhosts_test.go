// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

const neutronHostsCorefile = `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        placement neutron
        rate off
    }
    neutronhosts {
        path PATH
        fallthrough
    }
    cache
    forward . UPSTREAM
    prometheus ` + metricsAddr + `
    ready ` + readyAddr + ` {
        monitor continuously
    }
    errors
}
`

// writeAddnHosts replaces the file of a network as Neutron's agent does (neutron-lib,
// replace_file), with a line for each pair of an address and a name.
func writeAddnHosts(t *testing.T, dir, network string, hosts ...string) {
	t.Helper()
	folder := filepath.Join(dir, network)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for i := 0; i+1 < len(hosts); i += 2 {
		fmt.Fprintf(&text, "%s\t%s.cloud.internal. %s\n", hosts[i], hosts[i+1], hosts[i+1])
	}
	f, err := os.CreateTemp(folder, "tmp")
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(text.String())
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = os.Chmod(f.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(folder, "addn_hosts"))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Guests get the names of Neutron's DHCP agent, each those of its own network, and as they
// change under load.
func TestNeutronHosts(t *testing.T) {
	t.Parallel()
	const (
		redNet   = "5f8b3c0e-7a35-4b9a-9a35-1f6a1c0d0001"
		blueNet  = "5f8b3c0e-7a35-4b9a-9a35-1f6a1c0d0002"
		otherNet = "5f8b3c0e-7a35-4b9a-9a35-1f6a1c0d0003"
	)
	l := lab.New(t, lab.Options{Plain: true})
	l.Node.OFCTL("add-flow", lab.Bridge, "table=0,priority=1,actions=NORMAL")
	upstream := l.Upstream("www.example.org. 60 IN A 192.0.2.80", "only-red.cloud.internal. 60 IN A 192.0.2.99")
	red, blue := plainGuest(l, "red-vm", redNet, 11, 1), plainGuest(l, "blue-vm", blueNet, 12, 2)
	other := plainGuest(l, "other-vm", otherNet, 13, 3)
	dir := filepath.Join(l.Dir, "dhcp")
	// Equal names and addresses.
	writeAddnHosts(t, dir, redNet, "10.0.0.21", "db", "fd00:10::21", "db", "10.0.0.22", "only-red")
	writeAddnHosts(t, dir, blueNet, "10.0.0.31", "db", "10.0.0.21", "red-has-it-too")
	s := serve(t, l, strings.NewReplacer("PATH", dir, "UPSTREAM", upstream.Addr).Replace(neutronHostsCorefile))

	for _, resolver := range resolvers {
		for _, tt := range []struct {
			name  string
			guest *lab.Guest
			query string
			want  string
		}{
			{"red", red, "db.cloud.internal", "NOERROR 10.0.0.21"},
			{"blue, the same name", blue, "db.cloud.internal", "NOERROR 10.0.0.31"},
			{"bare", red, "db. AAAA", "NOERROR fd00:10::21"},
			{"by TCP", blue, "db. +tcp", "NOERROR 10.0.0.31"},
			{"PTR", red, "-x 10.0.0.21", "NOERROR db.cloud.internal."},
			{"PTR of the same address", blue, "-x 10.0.0.21", "NOERROR red-has-it-too.cloud.internal."},
			{"another type", blue, "db.cloud.internal AAAA", "NOERROR"},
			{"red's name", red, "only-red.cloud.internal", "NOERROR 10.0.0.22"},
			{"red's name, asked by blue", blue, "only-red.cloud.internal", "NXDOMAIN"},
			{"outside", blue, "www.example.org", "NOERROR 192.0.2.80"},
			{"a network without a file", other, "db.cloud.internal", "NXDOMAIN"},
			{"its outside names", other, "www.example.org", "NOERROR 192.0.2.80"},
		} {
			t.Run(tt.name+" "+resolver, func(t *testing.T) {
				expect(t, tt.guest, tt.want, append(strings.Fields(tt.query), "@"+resolver)...)
			})
		}
	}

	t.Run("changes under load", func(t *testing.T) {
		q := questions(t, blue, resolver4)
		stop, done := make(chan struct{}), make(chan struct{})
		t.Cleanup(func() {
			close(stop)
			<-done
		})
		go func() {
			defer close(done)
			for i := 100; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				writeAddnHosts(t, dir, blueNet, "10.0.0.31", "db", fmt.Sprintf("10.0.%d.%d", i>>8&255, i&255), "changing")
			}
		}()
		for i := range 10 {
			for range 200 {
				if err := q.ask("db.cloud.internal.", dns.TypeA, "NOERROR 10.0.0.31"); err != nil {
					t.Fatal(err)
				}
			}
			want := fmt.Sprintf("10.0.1.%d", i)
			follows(t, red, "db.cloud.internal.", dns.TypeA, "NOERROR "+want, func() { writeAddnHosts(t, dir, redNet, want, "db") })
		}
		q.finish(wait).clean(t, "blue")
	})
	t.Run("a network comes, goes and comes", func(t *testing.T) {
		for i := range 3 {
			want := fmt.Sprintf("10.0.2.%d", i)
			follows(t, other, "db.", dns.TypeA, "NOERROR "+want, func() { writeAddnHosts(t, dir, otherNet, want, "db") })
			follows(t, other, "db.", dns.TypeA, "NXDOMAIN", func() {
				if err := os.RemoveAll(filepath.Join(dir, otherNet)); err != nil {
					t.Error(err)
				}
			})
		}
	})
	if got := s.metric("coredns_neutronhosts_networks"); got != 2 {
		t.Errorf("%v networks", got)
	}
	s.endWell()
}
