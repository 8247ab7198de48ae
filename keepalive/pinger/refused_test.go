// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pinger_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit/caddystop"
)

// latecomer is an app that does not start.
type latecomer struct{}

func (latecomer) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "latecomer", New: func() caddy.Module { return new(latecomer) }}
}

func (latecomer) Start() error { return errors.New("not today") }
func (latecomer) Stop() error  { return nil }

func init() {
	caddy.RegisterModule(latecomer{})
	caddy.RegisterModule(app.AuditJSONL{})
}

// TestRefusedReload: a refused configuration changes nothing, at every stage of its start. Pings
// obey the limits of the configuration in force, and its audit records contain its settings.
func TestRefusedReload(t *testing.T) {
	k := newKept(t)
	record := filepath.Join(k.dir, "record.jsonl")
	const apps = `"apps": {`
	with := func(app, config string) string {
		return strings.Replace(config, apps, apps+`"llm_cache": {"audit": `+app+`},`, 1)
	}
	jsonl := func(path, more string) string {
		return `{"module": "jsonl", "writer": {"output": "file", "filename": "` + path + `"}` + more + `}`
	}
	good := with(jsonl(record, ""), k.config(keeping, ""))
	if err := caddy.Load([]byte(good), true); err != nil {
		t.Fatal(err)
	}
	at, pings := k.addr, 0
	k.ask(1)
	k.ask(2)
	next := func() string {
		defer func() { k.addr = at }()
		k.addr = testkit.FreeAddress(t)
		return k.config(keeping, `"X-Way": ["refused"]`)
	}
	content := jsonl(record, `, "content": true`) + `, "keepalive": {"hourly": 0.000000001}`
	late := strings.Replace(with(content, next()), apps, apps+`"latecomer": {},`, 1)
	for _, c := range []struct {
		name, config string
		times        int
	}{
		{"while it is read", with(content+`, "nonesuch": 1`, next()), 1},
		{"in Provision", strings.Replace(with(content, next()), `"handler": "reverse_proxy"`,
			`"handler": "reverse_proxy", "trusted_proxies": ["x"]`, 1), 1},
		{"in Validate", strings.Replace(with(content, next()), `"policy": "observe"`, `"policy": "observe", "health": "x"`,
			1), 1},
		{"in its own Start", with(jsonl(k.dir, `, "on_error": "refuse"`), next()), 3},
		{"in the Start of another app", late, 12}, // in any order
		{
			"in the Start of another app, with another store",
			strings.Replace(late, `"audit"`, `"originals": {"folder": "`+filepath.Join(k.dir, "texts")+`"}, "audit"`, 1), 12,
		},
		{"after the Start of all", strings.Replace(with(content, next()), `"persist": false`,
			`"persist": false, "load": {"module": "nonesuch"}`, 1), 1},
	} {
		for range c.times {
			if err := caddy.Load([]byte(c.config), true); err == nil {
				t.Fatalf("%s: loaded", c.name)
			}
		}
		advance(wait)
		pings++
		k.wantPings(pings, c.name)
		if h := k.got[k.pings()[pings-1]].Header; h.Get("X-Way") != "" {
			t.Errorf("%s: a ping went by a configuration that was refused", c.name)
		}
		k.ask(pings + 2)
	}
	caddystop.Stop(t) // writes the record
	text, err := os.ReadFile(record)
	if err != nil || strings.Count(string(text), "\n") < 2*pings {
		t.Fatalf("the record: %d bytes, %v", len(text), err)
	}
	if strings.Contains(string(text), "Shall I?") {
		t.Error("the record holds what a configuration asked for that was refused")
	}
}
