// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"
	"slices"

	"github.com/coredns/caddy"
	"github.com/coredns/caddy/caddyfile"

	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/internal/label"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
	"github.com/puntdns/puntdns/ofpunt/bridge"
	"github.com/puntdns/puntdns/ofpunt/config"
)

// Try returns an error unless a reload to a Corefile would keep what works now, as [bridge.Registry.Try] says.
// The blocks must have passed CheckAfter. databases returns what an ovnhosts directive reads and requests.
// What was opened stays open until release is called, so that the servers of the Corefile share it.
func Try(ctx context.Context, file string, blocks []caddyfile.ServerBlock, databases func(*caddy.Controller) (ovndb.Config, ovndb.Requests, error)) (release func(), err error) {
	candidates, err := candidates(file, blocks, databases)
	if err != nil {
		return nil, err
	}
	var servers []*bridge.Server
	for _, c := range candidates {
		servers = append(servers, bridge.NewServer(c))
	}
	if err := tryControl(servers); err != nil {
		return nil, err
	}
	return running.bridges.Try(ctx, servers)
}

// candidates returns the config of a server for each bridge of a Corefile. A server makes the requests of all
// blocks that read its databases, whether these are for its bridge, another bridge or sockets alone.
func candidates(file string, blocks []caddyfile.ServerBlock, databases func(*caddy.Controller) (ovndb.Config, ovndb.Requests, error)) (all []bridge.Config, err error) {
	requests := make(map[string][]ovndb.Requests) // by ovndb.Config.Key
	for i := range blocks {
		var database ovndb.Config
		hasOVNHosts := len(blocks[i].Tokens["ovnhosts"]) > 0
		if hasOVNHosts {
			var more ovndb.Requests
			if database, more, err = databases(corefile.Controller(file, &blocks[i], "ovnhosts")); err != nil {
				return nil, err
			}
			more.Forwards = len(blocks[i].Tokens["ovnforward"]) > 0
			requests[database.Key()] = append(requests[database.Key()], more)
		}
		if len(blocks[i].Tokens[name]) == 0 {
			continue
		}
		d, err := config.Parse(corefile.Controller(file, &blocks[i], name))
		if err != nil {
			return nil, err
		}
		n := slices.IndexFunc(all, func(c bridge.Config) bool { return c.Options.Name == d.Bridge.Name })
		if n < 0 {
			n, all = len(all), append(all, bridge.Config{Options: d.Bridge})
		}
		c := &all[n]
		if d.HasProperties() { // other blocks of the bridge have the same, or none
			c.Options = d.Bridge
		}
		if hasOVNHosts {
			c.HasDatabase, c.Database = true, database
		}
		read := label.Read(blocks[i])
		label.AddRequests(&c.Requests, read.Labels, read.ComparedNames)
		c.Requests.Egress = c.Requests.Egress || readsNorthboundPolicies(&blocks[i])
	}
	for i := range all {
		c := &all[i]
		c.Options.AddRequests(&c.Requests)
		if c.HasDatabase {
			c.More = requests[c.Database.Key()]
		}
	}
	return all, nil
}

// readsNorthboundPolicies reports whether the egress of a block has `northbound on`. Entries of a policy with these two words
// count too: then the trial reads more than it needs.
func readsNorthboundPolicies(block *caddyfile.ServerBlock) bool {
	tokens := block.Tokens["egress"]
	for i := 1; i < len(tokens); i++ {
		if tokens[i-1].Text == "northbound" && tokens[i].Text == "on" {
			return true
		}
	}
	return false
}
