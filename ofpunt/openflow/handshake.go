// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"bytes"
	"context"
	"fmt"
	"time"
)

// maxEarly bounds the packet-ins stored for Serve.
const maxEarly = 64

// handshake sets up packet-ins. A connection to a management socket gets packet-ins once its miss_send_len is set,
// so SET_CONFIG comes last.
func (c *Conn) handshake(ctx context.Context, o Options) error {
	stop := context.AfterFunc(ctx, func() { _ = c.nc.SetDeadline(time.Unix(1, 0)) })
	defer stop()

	if _, err := c.nc.Write(appendHello(nil, c.NextXID(), o.Versions)); err != nil {
		return err
	}
	hello, err := c.expect(typeHello, 0)
	if err != nil {
		return err
	}
	theirs, err := decodeHello(hello)
	if err != nil {
		return err
	}
	if c.version, err = negotiate(o.Versions, theirs); err != nil {
		return err
	}

	xid := c.NextXID()
	b := appendEmpty(nil, c.version, typeFeaturesRequest, xid)
	configXID := c.NextXID()
	b = appendEmpty(b, c.version, typeGetConfig, configXID)
	if _, err := c.nc.Write(b); err != nil {
		return err
	}
	features, err := c.expect(typeFeaturesReply, xid)
	if err != nil {
		return err
	}
	if c.datapath, err = decodeFeatures(features); err != nil {
		return err
	}
	config, err := c.expect(typeGetConfigReply, configXID)
	if err != nil {
		return err
	}
	flags, err := decodeConfig(config)
	if err != nil {
		return err
	}

	b = appendSetPacketInFormat(nil, c.version, c.NextXID())
	b = appendSetControllerID(b, c.version, c.NextXID(), o.ControllerID)
	b = appendSetAsync(b, c.version, c.NextXID())
	b = appendSetConfig(b, c.version, c.NextXID(), flags, 0xffff)
	xid = c.NextXID()
	b = appendBarrier(b, c.version, xid)
	if _, err := c.nc.Write(b); err != nil {
		return err
	}
	if _, err = c.expect(typeBarrierReply, xid); err != nil {
		return err
	}
	if !stop() {
		return context.Cause(ctx)
	}
	return c.nc.SetDeadline(time.Time{})
}

// expect reads until a message of the type, with the xid unless 0. It returns an error message as error, and stores
// packet-ins for Serve.
func (c *Conn) expect(typ uint8, xid uint32) ([]byte, error) {
	for {
		msg, err := c.receive()
		if err != nil {
			return nil, err
		}
		h, err := parseHeader(msg)
		if err != nil {
			return nil, err
		}
		switch {
		case h.typ == typeError:
			e, err := decodeError(msg)
			if err != nil {
				return nil, err
			}
			return nil, e
		case h.typ == typ && (xid == 0 || h.xid == xid):
			return msg, nil
		case h.typ == typeEchoRequest:
			if _, err := c.nc.Write(appendEchoReply(nil, msg)); err != nil {
				return nil, err
			}
		case isPacketIn2(msg) && len(c.early) < maxEarly:
			c.early = append(c.early, bytes.Clone(msg))
		case c.version != 0 && h.version != c.version:
			return nil, fmt.Errorf("%w: message in %v, not %v", ErrMalformed, h.version, c.version)
		}
	}
}

// receive reads a message within the handshake's deadline, without echo requests.
func (c *Conn) receive() ([]byte, error) {
	for {
		msg, err := c.next()
		if msg != nil || err != nil {
			return msg, err
		}
		c.end = copy(c.buf, c.buf[c.start:c.end])
		c.start = 0
		n, err := c.nc.Read(c.buf[c.end:])
		c.end += n
		if n == 0 && err != nil {
			return nil, err
		}
	}
}
