// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/coredns/caddy"
	"github.com/coredns/caddy/caddyfile"

	"github.com/puntdns/puntdns/ofpunt/bridge"
	"github.com/puntdns/puntdns/ofpunt/chain"
	"github.com/puntdns/puntdns/ofpunt/punt"
)

// instance is one reading of a Corefile: its blocks with ofpunt, and the servers made of
// them. caddy calls its callbacks in this order:
//
//	start             build, takeOver
//	reload            build(new), takeOver(new), stop(old)
//	failed reload     build(new)?, takeOver(new)?, rollBack(old)?, stop(new) after its takeOver
//	failed start      build?, takeOver?, stop after takeOver
//	end               stop
type instance struct {
	blocks []*chain.Block
	// parsed is set once finishParsing has been called, which TakeOverAfter or CheckAfter have
	// asked for.
	parsed  bool
	servers []*server
	// released is set when the servers have closed their databases. The lock of running guards it.
	released bool
}

func newInstance() *instance { return &instance{} }

// server is the part of an instance for one bridge.
type server struct {
	*bridge.Server
	chains *chain.Server
}

// newServer compiles the blocks of one bridge. Its error has all that is wrong with them.
func newServer(blocks []*chain.Block) (*server, error) {
	c, err := chain.Compile(blocks)
	if err != nil {
		return nil, err
	}
	of := bridge.Config{Options: c.Options, HasDatabase: c.HasDatabase, Database: c.Database, Requests: c.Requests, Openings: c.Openings, ACLBit: c.ACLBit}
	if c.Egress != nil {
		of.Egress = c.Egress
	}
	s := bridge.NewServer(of)
	s.Answer(c, punt.NewServer(c.Config(s.Guests(), s.Snapshot)))
	return &server{s, c}, nil
}

// finishParsing checks the blocks and adds our own handlers to them, once every directive of
// theirs has been read and before any server is made of them.
func (in *instance) finishParsing() error {
	in.parsed = true
	text := in.corefile()
	if text == nil {
		return chain.Prepare(in.blocks, "", nil)
	}
	parsed, err := caddyfile.Parse(text.Path(), bytes.NewReader(text.Body()), nil)
	if err != nil {
		return err
	}
	return chain.Prepare(in.blocks, text.Path(), parsed)
}

// corefile returns the Corefile of the instance. caddy gives a directive only its own tokens, and Prepare
// reads the tokens of all directives.
func (in *instance) corefile() caddy.Input {
	for _, i := range caddy.Instances() {
		i.StorageMu.RLock()
		of := i.Storage[instanceKey{}]
		i.StorageMu.RUnlock()
		if of == any(in) {
			return i.Caddyfile()
		}
	}
	return nil
}

// build makes the punt servers. It is the first stage of OnStartup, since plugins read the
// compiled chains in their own stages. Its error has all that is wrong with the blocks.
func (in *instance) build() error {
	if !in.parsed {
		b := in.blocks[0]
		return fmt.Errorf("%s - ofpunt %s: this program would serve nobody: no stage behind that of all plugins has the bridges taken over; expected a program whose main calls puntdns.Run (docs/extending.md of puntdns)", b, b.Directive.Bridge.Name)
	}
	var all []error
	for i, b := range in.blocks {
		all = append(all, b.Directive.CheckTLS())
		if slices.ContainsFunc(in.blocks[:i], func(of *chain.Block) bool { return of.Directive.Bridge.Name == b.Directive.Bridge.Name }) {
			continue
		}
		s, err := newServer(chain.OfBridge(in.blocks, b.Directive.Bridge.Name))
		if err == nil {
			in.servers = append(in.servers, s)
		}
		all = append(all, err)
	}
	return errors.Join(append(all, in.checkControl())...)
}

// takeOver has this instance's servers answer for the bridges. It is the last stage of
// OnStartup: all plugins have started.
func (in *instance) takeOver() error {
	running.Lock()
	defer running.Unlock()
	if err := in.open(); err != nil {
		for _, s := range in.servers {
			s.Close()
		}
		return err
	}
	for _, s := range in.servers {
		running.bridges.AwaitDatabases(s.Server)
	}
	running.switchTo(in)
	return nil
}

// open acquires the databases of the servers, and the control socket. A first start does not
// fail where another process has that: it may be handing over.
func (in *instance) open() error {
	for _, s := range in.servers {
		if err := s.Open(); err != nil {
			return err
		}
	}
	return useControl(controlPath(in.bridges()), running.serving == nil)
}

// bridges returns the servers of the bridges.
func (in *instance) bridges() (all []*bridge.Server) {
	for _, s := range in.servers {
		all = append(all, s.Server)
	}
	return all
}

// rollBack has this instance's servers answer again, after the start of the next instance has failed. If that
// instance had taken over, its stop follows.
func (in *instance) rollBack() error {
	running.Lock()
	defer running.Unlock()
	if in.released {
		return nil
	}
	running.switchTo(in)
	if err := useControl(controlPath(in.bridges()), true); err != nil {
		log.Warningf("Control socket: %v", err)
	}
	return nil
}

// stop shuts this instance down, unless that has been done. On a reload another instance has the bridges
// before.
func (in *instance) stop() error {
	running.Lock()
	defer running.Unlock()
	if in.released {
		return nil
	}
	if running.serving == in {
		running.switchTo(nil)
	}
	in.shutDown(running.serving)
	if running.serving == nil {
		_ = useControl("", false) // to close it never fails
	}
	return nil
}

// shutDown drains and closes this instance's servers, and the bridges for which successor has no server. A nil
// successor has none: the process ends, and closed guests wait for the next process.
func (in *instance) shutDown(successor *instance) {
	var wg sync.WaitGroup
	for _, s := range in.servers {
		wg.Go(func() {
			running.bridges.Stop(s.Server, successor == nil || !successor.has(s.Options.Name), successor == nil)
		})
	}
	wg.Wait()
	in.released = true
}

// has reports whether the instance has a server for the bridge.
func (in *instance) has(bridge string) bool {
	return slices.ContainsFunc(in.servers, func(s *server) bool { return s.Options.Name == bridge })
}
