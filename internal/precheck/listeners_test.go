// SPDX-License-Identifier: Apache-2.0

package precheck

import (
	"net"
	"testing"
)

// What shares an address by SO_REUSEPORT is no obstacle, and keeps all that comes.
func TestTryTCP(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		ln, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		for _, share := range []bool{true, false} {
			if err := tryTCP(ln.Addr().(*net.TCPAddr), share); err == nil {
				t.Errorf("%s: taken, though somebody has it for itself", ln.Addr())
			}
		}
		ln.Close()
		for _, share := range []bool{true, false} {
			if err := tryTCP(ln.Addr().(*net.TCPAddr), share); err != nil {
				t.Errorf("%s: %v", ln.Addr(), err)
			}
		}
	}
}
