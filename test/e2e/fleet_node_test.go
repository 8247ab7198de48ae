// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/caddy"
)

// fleetNode is one of the Caddys of a fleet. After a kill it restarts in the same folder.
type fleetNode struct {
	addr, admin, dir, config string

	mu      sync.Mutex
	process *caddy.Process
	loads   int
	deaths  []time.Time
}

// fleetAnswer records the node of a response, and its time.
type fleetAnswer struct {
	by *fleetNode
	at time.Time
}

// untold reports whether its node died before it reliably shared the session. Sharing takes a
// millisecond, if a processor is free.
func (a fleetAnswer) untold() bool {
	const soon = 200 * time.Millisecond
	a.by.mu.Lock()
	defer a.by.mu.Unlock()
	return slices.ContainsFunc(a.by.deaths, func(death time.Time) bool { return death.Sub(a.at).Abs() < soon })
}

func startNode(t *testing.T, store, site string) *fleetNode {
	t.Helper()
	addrs, err := caddy.FreeAddrs(2)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(addrs[1])
	n := &fleetNode{addr: addrs[1], admin: addrs[0], dir: t.TempDir()}
	n.config = fmt.Sprintf(`{
	admin %s
	persist_config off
	auto_https off
	grace_period 5s
	log {
		level WARN
	}
	llm_cache {
		store %s
	}
}
http://:%s {
	bind 127.0.0.1
	%s
}
`, n.admin, store, port, site)
	n.start(t)
	t.Cleanup(func() {
		if err := n.process.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the log of a node ends with\n%s", n.process.LogTail())
		}
	})
	return n
}

func (n *fleetNode) start(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	p, err := caddy.Start(ctx, binary, n.dir, n.admin, n.config)
	if err != nil {
		t.Error(err)
		return
	}
	n.process = p
}

// dies kills the node like a crash, and restarts it.
func (n *fleetNode) dies(t *testing.T) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.deaths = append(n.deaths, time.Now())
	n.process.Kill()
	n.start(t)
}

// reloads loads another configuration of the same meaning.
func (n *fleetNode) reloads(t *testing.T) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loads++
	if err := n.process.Reload(t.Context(),
		fmt.Sprintf("%s\nhttp://127.0.0.1:1 {\n\tbind unix//%s/x.sock\n\trespond %d\n}\n", n.config, n.dir,
			200+n.loads%100)); err != nil {
		t.Error(err)
	}
}
