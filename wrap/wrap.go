// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

// Package wrap starts a client so that its requests go through llm_cache.
package wrap

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
)

// client is how one is told where to send its requests.
type client struct {
	name, program string
	// provider is the preset that a private instance stands before, host where that
	// is to be had.
	provider, host string
	// set returns what is put in front of the arguments, and into the environment. A
	// private instance stands before one provider alone.
	set func(base string, private bool) (args, env []string)
}

var clients = []client{
	{"claude", "claude", "anthropic", "api.anthropic.com", func(base string, _ bool) ([]string, []string) {
		return nil, []string{"ANTHROPIC_BASE_URL=" + base}
	}},
	{"codex", "codex", "openai", "api.openai.com", func(base string, _ bool) ([]string, []string) {
		const p = "model_providers.llm_cache."
		return []string{
			"-c", `model_provider="llm_cache"`, "-c", p + `name="llm_cache"`, "-c", p + fmt.Sprintf("base_url=%q", base+"/v1"),
			"-c", p + `wire_api="responses"`, "-c", p + `env_key="OPENAI_API_KEY"`,
		}, nil
	}},
	{"opencode", "opencode", "anthropic", "api.anthropic.com", func(base string, private bool) ([]string, []string) {
		providers := map[string]any{}
		for name, version := range map[string]string{"anthropic": "/v1", "openai": "/v1", "google": "/v1beta"} {
			if private && name != "anthropic" {
				continue
			}
			providers[name] = map[string]any{"options": map[string]any{"baseURL": base + version}}
		}
		config, _ := json.Marshal(map[string]any{"provider": providers}) // strings alone
		return nil, []string{"OPENCODE_CONFIG_CONTENT=" + string(config)}
	}},
	{"gemini", "gemini", "gemini", "generativelanguage.googleapis.com", func(base string, _ bool) ([]string, []string) {
		return nil, []string{"GOOGLE_GEMINI_BASE_URL=" + base}
	}},
}

func names() []string {
	out := make([]string, len(clients))
	for i := range clients {
		out[i] = clients[i].name
	}
	return out
}

// Command returns the subcommand `wrap` of `caddy llm-cache`.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "wrap [--url <address>] " + strings.Join(names(), "|") + " [-- <arguments of the client>]",
		Short: "Starts a client so that its requests go through llm_cache",
		Long: `
Starts a client with the environment, or the settings on its command line, by which
its requests go through llm_cache: that of a Caddy that runs at --url, or else one
of its own in this process, for as long as the client runs, in front of the client's
own provider. Keys stay where they are: the client sends them, and they are passed
on. Codex takes its key from OPENAI_API_KEY.

The exit status is the client's.
`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return caddycmd.WrapCommandFuncForCobra(func(f caddycmd.Flags) (int, error) {
				return run(cmd, f.String("url"), f.Args())
			})(cmd, args)
		},
	}
	cmd.Flags().String("url", "", "Address of a running site with llm_cache, such as http://localhost:8080. Default: one of its own")
	return cmd
}

func run(cmd *cobra.Command, base string, args []string) (int, error) {
	i := slices.IndexFunc(clients, func(c client) bool { return c.name == args[0] })
	if i < 0 {
		return caddy.ExitCodeFailedStartup, fmt.Errorf("wrap: %q is none of %s", args[0], strings.Join(names(), ", "))
	}
	c := clients[i]
	path, err := exec.LookPath(c.program)
	if err != nil {
		return caddy.ExitCodeFailedStartup, fmt.Errorf("wrap: %w", err)
	}
	own := base == ""
	if own {
		if base, err = private(c); err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		defer func() { _ = caddy.Stop() }()
	}
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return caddy.ExitCodeFailedStartup, fmt.Errorf("wrap: %q is no URL that begins with http:// or https://", base)
	}
	before, env := c.set(strings.TrimSuffix(base, "/"), own)
	child := exec.CommandContext(cmd.Context(), path, append(before, args[1:]...)...)
	child.Env = append(os.Environ(), env...)
	child.Stdin, child.Stdout, child.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	// An interrupt is the client's, which has the terminal.
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	err = child.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), fmt.Errorf("wrap: %s ended with status %d", c.name, exit.ExitCode())
	}
	if err != nil {
		return caddy.ExitCodeFailedStartup, fmt.Errorf("wrap: %w", err)
	}
	return caddy.ExitCodeSuccess, nil
}

// private starts Caddy with llm_cache before a client's provider.
func private(c client) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("wrap: %w", err)
	}
	address := l.Addr().String()
	_ = l.Close()
	if err := caddy.Load(site(c, address), true); err != nil {
		return "", fmt.Errorf("wrap: %w", err)
	}
	return "http://" + address, nil
}

// site is the configuration of a private instance.
func site(c client, address string) []byte {
	return fmt.Appendf(nil, `{"admin":{"disabled":true,"config":{"persist":false}},"logging":{"logs":{"default":{"level":"ERROR"}}},
	"apps":{"http":{"servers":{"wrap":{"listen":[%q],"automatic_https":{"disable":true},"routes":[{"handle":[
		{"handler":"llm_cache","upstream":{"preset":%q}},
		{"handler":"reverse_proxy","upstreams":[{"dial":%q}],"headers":{"request":{"set":{"Host":[%q]}}},"transport":{"protocol":"http","tls":{}}}]}]}}}}}`,
		address, c.provider, c.host+":443", c.host)
}
