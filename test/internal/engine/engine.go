// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package engine runs a real inference engine for tests: a tiny model with random weights, real KV
// caches, and scripted answers.
package engine

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/caddy"
)

//go:embed server.mjs
var server []byte

// Options configure an engine.
type Options struct {
	// Packages is a folder with node-llama-cpp in its node_modules.
	Packages string
	// Dir is the folder of the model and the server's log.
	Dir string
	// Text is the text that the tokenizer learns from.
	Text string
	// Slots is the number of concurrent prompts. A prompt stays in its slot afterwards. Default: 1.
	Slots int
	// Prompts is the number of additional prompts in memory, in the manner of mlx-lm: the most
	// recently used, where a longer prompt replaces its own prefix. Default: none.
	Prompts int
	// Context is the length of a prompt and its answer, over all slots, in tokens. Default: 65536.
	Context int
	// Sliding restricts attention to a window, so that a cache cannot be cut back.
	Sliding bool
	// Layers is the depth of the model, and determines the time for a prompt. Default: 1, or 6 if
	// Sliding.
	Layers int
}

// Engine is a running server.
type Engine struct {
	// Addr is the address of the server.
	Addr string

	options Options
	model   string
	process *exec.Cmd
	client  http.Client
}

// Call is a tool call in a script.
type Call struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Step is the engine's answer to one request with tools.
type Step struct {
	Thinking string `json:"thinking,omitempty"`
	Text     string `json:"text,omitempty"`
	Calls    []Call `json:"calls,omitempty"`
}

// Request is the engine's own record of a request.
type Request struct {
	Model    string `json:"model"`
	Tools    int    `json:"tools"`
	Messages int    `json:"messages"`
	Slot     int    `json:"slot"`
	// Prompt is the length of the prompt in tokens. Cached is the part from the slot's cache,
	// Processed the rest.
	Prompt    int  `json:"prompt"`
	Cached    int  `json:"cached"`
	Processed int  `json:"processed"`
	Aborted   bool `json:"aborted"`
	// Answering reports that the prompt is processed.
	Answering bool    `json:"answering"`
	Millis    float64 `json:"ms"`
}

// Start makes a model and starts a server for it.
func Start(ctx context.Context, o Options) (*Engine, error) {
	if o.Slots == 0 {
		o.Slots = 1
	}
	switch {
	case o.Layers > 0:
	case o.Sliding: // every sixth layer has full attention
		o.Layers = 6
	default:
		o.Layers = 1
	}
	if o.Context == 0 {
		o.Context = 65536
	}
	addrs, err := caddy.FreeAddrs(1)
	if err != nil {
		return nil, err
	}
	e := &Engine{Addr: addrs[0], options: o, model: filepath.Join(o.Dir, "tiny.gguf")}
	if err := e.writeModel(); err != nil {
		return nil, fmt.Errorf("engine: writing the model: %w", err)
	}
	return e, e.Restart(ctx)
}

func (e *Engine) writeModel() error {
	f, err := os.Create(e.model)
	if err != nil {
		return err
	}
	if err := WriteModel(f, e.options.Text, e.options.Sliding, e.options.Layers); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

// Restart restarts the server with empty caches.
func (e *Engine) Restart(ctx context.Context) error {
	e.Kill()
	script, err := e.script()
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	defer os.Remove(script)
	_, port, _ := strings.Cut(e.Addr, ":")
	log, err := os.Create(filepath.Join(e.options.Dir, "engine.log"))
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	defer log.Close()
	e.process = exec.Command("node", script, e.model, port, strconv.Itoa(e.options.Slots), strconv.Itoa(e.options.Context),
		strconv.Itoa(e.options.Prompts), e.options.Dir) //nolint:noctx // it outlives this
	e.process.Stdout, e.process.Stderr = log, log
	if err := e.process.Start(); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if e.call(ctx, http.MethodGet, "/health", nil, nil) == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			said, _ := os.ReadFile(log.Name())
			e.Kill()
			return fmt.Errorf("engine: does not answer: %w\n%s", ctx.Err(), said)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// script writes the server's program into the folder of its packages, under a unique name for
// concurrent engines.
func (e *Engine) script() (path string, err error) {
	f, err := os.CreateTemp(e.options.Packages, "llm_cache-engine-*.mjs")
	if err != nil {
		return "", err
	}
	_, err = f.Write(server)
	return f.Name(), errors.Join(err, f.Close())
}

// Kill kills the server.
func (e *Engine) Kill() {
	if e.process == nil {
		return
	}
	_ = e.process.Process.Kill()
	_ = e.process.Wait()
	e.process = nil
}

// Script sets the answers to the next requests with tools.
func (e *Engine) Script(ctx context.Context, steps []Step) error {
	return e.call(ctx, http.MethodPost, "/script", steps, nil)
}

// Requests returns all finished requests since the last Reset.
func (e *Engine) Requests(ctx context.Context) (list []Request, err error) {
	err = e.call(ctx, http.MethodGet, "/stats", nil, &list)
	return list, err
}

// Running returns the requests in progress.
func (e *Engine) Running(ctx context.Context) (list []Request, err error) {
	err = e.call(ctx, http.MethodGet, "/running", nil, &list)
	return list, err
}

// Reset clears the record of requests, not the caches.
func (e *Engine) Reset(ctx context.Context) error {
	return e.call(ctx, http.MethodDelete, "/stats", nil, nil)
}

func (e *Engine) call(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+e.Addr+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	res, err := e.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	said, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("engine: %s %s: %s: %s", method, path, res.Status, said)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(said, out)
}
