// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"bytes"
	"context"
	"fmt"
)

// Description describes a switch (OpenFlow 1.5.1, 7.3.5.1).
type Description struct {
	Manufacturer, Hardware string
	// Software is the OVS version.
	Software string
}

const (
	descLen = 256 // of all but the serial number
	descMin = 3 * descLen
)

func appendDescRequest(b []byte, v Version, xid uint32) ([]byte, error) {
	start := len(b)
	return endMessage(appendMultipart(b, v, xid, multipartDesc), start)
}

func decodeDesc(b []byte) (d Description, err error) {
	if len(b) < descMin {
		return d, malformed("switch description of %d bytes", len(b))
	}
	text := func(i int) string {
		t, _, _ := bytes.Cut(b[i*descLen:(i+1)*descLen], []byte{0})
		return string(t)
	}
	return Description{text(0), text(1), text(2)}, nil
}

// Description requests the switch's description.
func (c *Conn) Description(ctx context.Context) (Description, error) {
	b, err := c.multipart(ctx, func(xid uint32) ([]byte, error) { return appendDescRequest(nil, c.version, xid) })
	if err != nil {
		return Description{}, fmt.Errorf("switch description: %w", err)
	}
	return decodeDesc(b)
}
