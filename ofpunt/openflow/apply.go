// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"context"
	"errors"
	"fmt"
)

// Apply makes all changes in order as an atomic bundle, or none. A *SwitchError has the refused change as Request.
// If ctx ends during the commit, the result is unknown, as the error says.
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

// fillBundle returns an error for a refused change. The bundle must not be committed then.
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

// commitBundle expects two errors for a refused commit: for the change, then for the commit.
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

// discardBundle ignores errors: the switch frees idle bundles.
func (c *Conn) discardBundle(ctx context.Context, first, discard uint32) {
	k := &call{
		first:   discard,
		n:       1,
		reply:   func(header, []byte) (bool, error) { return true, nil },
		refused: fails,
	}
	_ = c.do(ctx, k, appendBundleControl(nil, c.version, discard, first, bundleDiscard))
}
