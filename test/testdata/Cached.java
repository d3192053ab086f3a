// SPDX-License-Identifier: Apache-2.0

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.UnknownHostException;
import java.security.Security;

/** Connects to NAME PORT again and again, by an address that it keeps for ever, and prints each change of the outcome. */
class Cached {
	public static void main(String[] args) throws Exception {
		Security.setProperty("networkaddress.cache.ttl", "-1");
		for (String last = "";;) {
			String now = "open";
			try (Socket s = new Socket()) {
				s.connect(new InetSocketAddress(InetAddress.getByName(args[0]), Integer.parseInt(args[1])), 5000 /* ms */);
			} catch (UnknownHostException e) {
				throw e;
			} catch (IOException e) {
				now = "closed";
			}
			if (!now.equals(last)) {
				System.out.println(now);
			}
			last = now;
			Thread.sleep(500);
		}
	}
}
