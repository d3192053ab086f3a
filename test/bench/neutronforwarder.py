# SPDX-License-Identifier: Apache-2.0
"""Runs the DNS forwarder of Neutron's Open vSwitch agent, its extension dns_forwarder,
without the agent: with the flow that the agent has for it, and what it asks of the agent,
which is the bridge, and which it does not use."""

import logging
import os
import signal

# Registers the options.
from neutron.plugins.ml2.drivers.openvswitch.agent.common import config  # noqa: F401
from neutron.agent.l2.extensions import dns_forwarder
from os_ken import cfg as os_ken_cfg
from os_ken.base import app_manager
from os_ken.controller import ofp_event
from os_ken.controller.handler import CONFIG_DISPATCHER, set_ev_cls
from os_ken.lib import hub
from os_ken.ofproto import ofproto_v1_3
from oslo_config import cfg

import puntflow


class Flows(app_manager.OSKenApp):
    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)
    def connected(self, event):
        puntflow.install(event.msg.datapath, 0)


class Agent:
    def request_int_br(self):
        return None


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    cfg.CONF([], project="neutron", default_config_files=[])
    cfg.CONF.set_override("upstream_dns_server_ports", os.environ["UPSTREAMS"].split(","), "DNS_FORWARDER")
    os_ken_cfg.CONF(
        args=["--ofp-tcp-listen-port", "6653", "--ofp-listen-host", "127.0.0.1"], project="os_ken", default_config_files=[]
    )
    manager = app_manager.AppManager.get_instance()
    manager.load_apps(["os_ken.controller.ofp_handler"])
    contexts = manager.create_contexts()
    services = manager.instantiate_apps(**contexts)
    manager.instantiate(Flows).start()
    extension = dns_forwarder.DNSForwarderAgentExtension()
    extension.consume_api(Agent())
    extension.initialize(None, None)
    print("starting", flush=True)
    hub.joinall(services)
