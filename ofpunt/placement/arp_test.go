// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"encoding/hex"
	"maps"
	"testing"
	"time"

	"github.com/puntdns/puntdns/ofpunt/openflow"
)

func TestDroppedARP(t *testing.T) {
	const (
		mark  = "0004002000000000001900180001150800001000000010000000000000000000" // set_field:0x1000/0x1000->reg10
		clear = "0004002000000000001900180001150800000000000010000000000000000000" // set_field:0/0x1000->reg10
	)
	of := func(actions string, typ uint16, datapath uint64, port uint32, packets uint64, idle time.Duration) openflow.FlowStats {
		b, err := hex.DecodeString(actions)
		if err != nil {
			t.Fatal(err)
		}
		return openflow.FlowStats{
			Packets: packets, Idle: idle, Instructions: b,
			Match: openflow.NewMatch(openflow.EthType(typ), openflow.Metadata(datapath), openflow.Reg(RegInPort, port)),
		}
	}
	got := DroppedARP([]openflow.FlowStats{
		of(mark, ethARP, 1, 1, 3, time.Second), of(mark, ethARP, 1, 1, 4, 2*time.Second), of(mark, ethARP, 2, 1, 5, 0),
		of(mark, ethARP, 1, 2, 6, droppedARPTime), of(mark, ethARP, 1, 3, 7, -1), of(mark, ethIPv6, 1, 4, 8, 0),
		of(clear, ethARP, 1, 5, 9, 0), of(mark, ethARP, 1, 6, 0, 0),
		{Packets: 8, Match: openflow.NewMatch(openflow.EthType(ethARP), openflow.Metadata(1))},
	})
	if want := map[Key]uint64{{Datapath: 1, Port: 1}: 7, {Datapath: 2, Port: 1}: 5}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
