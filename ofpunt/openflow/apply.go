// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"context"
	"errors"
	"fmt"
)

// Apply makes all of the changes at once and in order, as one atomic bundle,
// or none of them. If the switch refuses one, the error wraps a *SwitchError with that
// change as its Request. If ctx ends while the switch commits, it is not known whether
// the changes are made, and the error says so.
func (c *Conn) Apply(ctx context.Context, mods []FlowMod) error {
	if len(mods) == 0 {
		return nil
	}
	select {
	case c.applying <- struct{}{}:
		defer func() { <-c.applying }()
	case <-c.done:
		return c.reason
	case <-ctx.Done():
		return context.Cause(ctx)
	}

	// The bundle is opened under the first transaction id, then each change
	// has its own.
	n := len(mods)
	first := c.reserve(n + 4)
	barrier, commit, discard := first+uint32(n)+1, first+uint32(n)+2, first+uint32(n)+3
	name := func(i int) string {
		if i >= 1 && i <= n {
			return mods[i-1].String()
		}
		return "BUNDLE_CONTROL"
	}

	if err := c.fillBundle(ctx, mods, first, barrier, name); err != nil {
		c.discardBundle(ctx, first, discard)
		return fmt.Errorf("applying %d flow changes: %w", n, err)
	}
	if err := c.commitBundle(ctx, first, commit, name); err != nil {
		return fmt.Errorf("applying %d flow changes: %w", n, err)
	}
	return nil
}

// fillBundle opens the bundle, which has the number first, and adds the
// changes. It waits until the switch has seen them: one that is refused here
// is only left out of the bundle, which must not be committed then.
func (c *Conn) fillBundle(ctx context.Context, mods []FlowMod, first, barrier uint32, name func(int) string) error {
	k := untilBarrier(first, len(mods)+2, name)
	if err := c.begin(k); err != nil {
		return err
	}
	defer c.forget(k)
	b := appendBundleControl(nil, c.version, first, first, bundleOpen)
	var err error
	for i := range mods {
		if b, err = appendBundleAdd(b, c.version, first+1+uint32(i), first, &mods[i]); err != nil {
			return err
		}
		if len(b) >= sendChunk {
			if err := c.send(ctx, b); err != nil {
				return err
			}
			b = b[:0]
		}
	}
	b = appendBarrier(b, c.version, barrier)
	if err := c.send(ctx, b); err != nil {
		return err
	}
	return c.wait(ctx, k)
}

// commitBundle commits. The switch refuses a commit by two errors: one for the
// change that cannot be made, then one for the commit itself.
func (c *Conn) commitBundle(ctx context.Context, first, commit uint32, name func(int) string) error {
	var refusal error
	k := &call{
		first: first,
		n:     commit - first + 1,
		reply: func(hd header, msg []byte) (bool, error) {
			ctrl, ok := decodeBundleControl(msg)
			return ok && hd.xid == commit && ctrl == bundleCommitReply, nil
		},
		refused: func(e *SwitchError) (bool, error) {
			if refusal == nil {
				e.Request = name(int(e.XID - first))
				refusal = e
			}
			return e.XID == commit, refusal
		},
	}
	err := c.do(ctx, k, appendBundleControl(nil, c.version, commit, first, bundleCommit))
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return fmt.Errorf("unknown whether they were made: %w", err)
	}
	return err
}

// discardBundle frees a bundle that is not to be committed. Errors are ignored: the switch
// frees idle bundles by itself.
func (c *Conn) discardBundle(ctx context.Context, first, discard uint32) {
	k := &call{
		first:   discard,
		n:       1,
		reply:   func(header, []byte) (bool, error) { return true, nil },
		refused: fails,
	}
	_ = c.do(ctx, k, appendBundleControl(nil, c.version, discard, first, bundleDiscard))
}
