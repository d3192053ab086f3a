// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"reflect"
	"strings"
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/caddy/caddyfile"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
	"github.com/puntdns/puntdns/ofpunt/bridge"
)

// A bridge is tried with what all blocks want of its databases, in any order: those for another
// bridge, and those for sockets alone.
func TestTryRequestsOfAllBlocks(t *testing.T) {
	blocks, err := caddyfile.Parse("Corefile", strings.NewReader(`
		a.test {
			ovnhosts one b
		}
		. {
			ofpunt br-a
			view v {
				expr metadata('ofpunt/external-id/k') == '' && metadata('ofpunt/router') == ''
			}
			ovnhosts one routers
		}
		c.test {
			ofpunt br-b {
				address dhcp
			}
			log . "{/ofpunt/external-id/a:b} {/ofpunt/switch} {/ofpunt/group}"
			ovnhosts one
		}
		d.test {
			ofpunt br-c {
				limit ofpunt/external-id/project p {
					rate 5
				}
				limit ofpunt/router r {
					tcp_connections 5
				}
				limit ofpunt/group g {
					rate 6
				}
			}
			ovnhosts two
			egress {
				northbound on
				strict on
			}
		}
		e.test {
			ofpunt br-d
		}
		f.test {
			ovnhosts one f
		}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := candidates("Corefile", blocks, func(c *caddy.Controller) (ovndb.Config, ovndb.Requests, error) {
		c.Next()
		args := append(c.RemainingArgs(), "")
		requests := ovndb.Requests{Network: ovn.SwitchRef{Name: args[1]}}
		if args[1] == "routers" {
			requests = ovndb.Requests{Routers: true}
		}
		return ovndb.Config{Southbound: args[:1]}, requests, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	one := []ovndb.Requests{{Network: ovn.SwitchRef{Name: "b"}}, {Routers: true}, {}, {Network: ovn.SwitchRef{Name: "f"}}}
	for i, want := range []struct {
		requests []ovndb.Requests
		own      ovndb.Requests
	}{
		{one, ovndb.Requests{ExternalIDs: []string{"k"}, RouterNames: true}},
		{one, ovndb.Requests{ExternalIDs: []string{"a:b"}, DNSServers: true, GroupNames: true}},
		{[]ovndb.Requests{{}}, ovndb.Requests{ExternalIDs: []string{"project"}, RouterNames: true, GroupNames: true, Egress: true}},
		{},
	} {
		c := all[i]
		if own := bridge.NewServer(c).Requested(); !reflect.DeepEqual(c.More, want.requests) || !reflect.DeepEqual(own, want.own) {
			t.Errorf("%s requests %+v and %+v, want %+v", c.Options.Name, c.More, own, want)
		}
	}
}
