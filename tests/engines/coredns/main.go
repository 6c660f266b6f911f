// CoreDNS with the plugins that a cluster's DNS needs and no others: the usual build has the SDKs of three clouds.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"
)

func init() {
	// A query passes the plugins in this order: what the cluster does not own is answered by the template, last.
	dnsserver.Directives = []string{"bind", "ready", "errors", "loadbalance", "cache", "kubernetes", "template"}
}

func main() { coremain.Run() }
