// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/coredns/caddy"
	"github.com/coredns/caddy/caddyfile"

	"github.com/puntdns/puntdns/ofpunt/chain"
	"github.com/puntdns/puntdns/ofpunt/punt"
)

// instance is one reading of a Corefile: its blocks with ofpunt, and the servers made of
// them. caddy calls its callbacks in this order:
//
//	start             build, takeOver
//	reload            build(new), takeOver(new), stop(old)
//	failed reload     build(new)?, takeOver(new)?, rollBack(old)?, undoTakeOver(new) after its takeOver
//	failed start      build?, takeOver?, undoTakeOver after takeOver
//	end               stop
type instance struct {
	blocks []*chain.Block
	// parsed is set once finishParsing has been called, which TakeOverAfter or CheckAfter have
	// asked for.
	parsed  bool
	servers []*server
	// released is set when the servers have released their databases; serving guards it.
	released bool
}

func newInstance() *instance { return &instance{} }

// serving is the instance whose servers the bridges have now, nil for none. Its lock is held
// while that changes.
var serving struct {
	sync.Mutex
	instance *instance
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

// corefile is what the instance was read from. caddy shows a directive its own tokens only, and
// not those of other directives of the block.
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
	serving.Lock()
	defer serving.Unlock()
	if err := in.open(); err != nil {
		for _, s := range in.servers {
			s.close()
		}
		return err
	}
	for _, s := range in.servers {
		s.awaitNewDatabases()
		bridges.setServer(s)
		s.chains.SetEnabled()
	}
	serving.instance = in
	return nil
}

// open acquires the databases of the servers, and the control socket. A first start does not
// fail where another process has that: it may be handing over.
func (in *instance) open() error {
	for _, s := range in.servers {
		if err := s.open(); err != nil {
			return err
		}
	}
	return useControl(controlPath(in.servers), serving.instance == nil)
}

// undoTakeOver shuts this instance down after a start that has failed behind its takeOver, unless
// the instance before has rolled that back.
func (in *instance) undoTakeOver() error {
	serving.Lock()
	if !in.released {
		for _, s := range in.servers {
			s.chains.ClearEnabled()
		}
	}
	serving.Unlock()
	return in.stop()
}

// rollBack has this instance's servers answer again, after the start of another one has failed
// behind its takeOver.
func (in *instance) rollBack() error {
	serving.Lock()
	defer serving.Unlock()
	if in.released {
		return nil
	}
	failed := serving.instance
	if failed != nil && failed != in {
		for _, s := range failed.servers {
			s.chains.ClearEnabled()
		}
	}
	for _, s := range in.servers {
		s.chains.SetEnabled()
	}
	if err := useControl(controlPath(in.servers), true); err != nil {
		log.Warningf("Control socket: %v", err)
	}
	if failed == in {
		return nil
	}
	for _, s := range in.servers {
		bridges.setServer(s)
	}
	serving.instance = in
	if failed != nil {
		failed.shutDown(in)
		failed.released = true
	}
	return nil
}

// stop shuts this instance down, once. On a reload another one has the bridges by then.
func (in *instance) stop() error {
	serving.Lock()
	defer serving.Unlock()
	if in.released {
		return nil
	}
	successor := serving.instance
	if successor == in {
		successor, serving.instance = nil, nil
	}
	in.shutDown(successor)
	in.released = true
	if successor == nil {
		_ = useControl("", false) // to close it never fails
	}
	return nil
}

// shutDown drains and closes this instance's servers, and the bridges that successor has no
// server for; nil has none. The flows of a bridge go first, so that no query comes, or, where another
// process has them, not for much longer. Then the queries in the chains get their answers, and then
// the connection ends.
func (in *instance) shutDown(successor *instance) {
	var wg sync.WaitGroup
	for _, s := range in.servers {
		wg.Go(func() {
			last := successor == nil || !successor.has(s.options.Name)
			b := bridges.get(s.options.Name)
			if b != nil && last {
				b.withdrawFlows()
				b.answerLastPunts()
			}
			ctx, cancel := context.WithTimeout(context.Background(), punt.DrainTimeout)
			defer cancel()
			s.drain(ctx)
			if last {
				if b != nil {
					b.flush(ctx)
				}
				bridges.remove(s.options.Name)
			}
			s.close()
		})
	}
	wg.Wait()
}

// has reports whether the instance has a server for the bridge.
func (in *instance) has(bridge string) bool {
	return slices.ContainsFunc(in.servers, func(s *server) bool { return s.options.Name == bridge })
}
