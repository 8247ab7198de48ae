// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

// Wrap starts a client with its requests routed through llm_cache.

import (
	"cmp"
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

func names() []string {
	out := make([]string, len(clients))
	for i := range clients {
		out[i] = clients[i].name
	}
	return out
}

// WrapCommand returns the subcommand `wrap` of `caddy llm-cache`.
func WrapCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "wrap [--url <address>] " + strings.Join(names(), "|") + " [<arguments of the client>]",
		Short: "Starts a client so that its requests go through llm_cache",
		Long: `
Starts a client with the environment, or the settings on its command line, by which
its requests go through llm_cache: that of a Caddy that runs at --url, or else one
of its own in this process, for as long as the client runs. That one stands in front
of the base URL that the client has been told to use, or else of the client's own
provider. Keys stay where they are: the client sends them, and they are passed on.
Codex takes its key from OPENAI_API_KEY, unless it has a provider of its own.

What stands behind the client's name goes to the client. The exit status is the
client's.
`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return caddycmd.WrapCommandFuncForCobra(func(f caddycmd.Flags) (int, error) {
				return runWrapped(cmd, f.String("url"), args)
			})(cmd, args)
		},
	}
	cmd.Flags().String("url", "",
		"Address of a running site with llm_cache, such as http://localhost:8080. Default: one of its own")
	cmd.Flags().SetInterspersed(false)
	return cmd
}

func runWrapped(cmd *cobra.Command, site string, args []string) (int, error) {
	i := slices.IndexFunc(clients, func(c client) bool { return c.name == args[0] })
	if i < 0 {
		return caddy.ExitCodeFailedStartup, fmt.Errorf("wrap: client must be one of %s, got %q",
			strings.Join(names(), ", "), args[0])
	}
	c := clients[i]
	path, err := exec.LookPath(c.program)
	if err != nil {
		return caddy.ExitCodeFailedStartup, fmt.Errorf("wrap: %w", err)
	}
	l := &launch{args: slices.Clone(args[1:]), env: os.Environ()}
	if len(l.args) > 0 && l.args[0] == "--" {
		l.args = l.args[1:]
	}
	if l.home, err = os.UserHomeDir(); err != nil {
		return caddy.ExitCodeFailedStartup, fmt.Errorf("wrap: %w", err)
	}
	if l.dir, err = os.Getwd(); err != nil {
		return caddy.ExitCodeFailedStartup, fmt.Errorf("wrap: %w", err)
	}
	to, err := aim(c, l, site)
	if err != nil {
		return caddy.ExitCodeFailedStartup, err
	}
	if site == "" {
		defer func() { _ = caddy.Stop() }()
	}
	c.set(l, to)
	child := exec.CommandContext(cmd.Context(), path, l.args...)
	child.Env = l.env
	child.Stdin, child.Stdout, child.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	// The client has the terminal, so it handles interrupts.
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

// aim returns the target of a client: the site, or a private instance, which it starts.
func aim(c client, l *launch, site string) (target, error) {
	if name := c.elsewhere(l); name != "" {
		return target{}, fmt.Errorf("wrap: %s is set, so that %s uses no base URL: unset it", name, c.name)
	}
	if site != "" {
		if _, err := parse(site); err != nil {
			return target{}, fmt.Errorf("wrap: --url: %w", err)
		}
		site = strings.TrimSuffix(site, "/")
		return target{base: site + c.version, site: site}, nil
	}
	u, err := parse(cmp.Or(c.base(l), c.api))
	if err != nil {
		return target{}, fmt.Errorf("wrap: base URL of %s: %w", c.name, err)
	}
	address, err := private(u)
	if err != nil {
		return target{}, err
	}
	// The path and a password stay. The client sends both.
	base := *u
	base.Scheme, base.Host = "http", address
	api, _ := url.Parse(c.api)
	return target{base: strings.TrimSuffix(base.String(), "/"), official: u.Scheme == api.Scheme && u.Host == api.Host},
		nil
}

func parse(base string) (*url.URL, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q is no URL that begins with http:// or https://", base)
	}
	return u, nil
}

func private(upstream *url.URL) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("wrap: %w", err)
	}
	address := l.Addr().String()
	_ = l.Close()
	if err := caddy.Load(config(upstream, address), true); err != nil {
		return "", fmt.Errorf("wrap: %w", err)
	}
	return address, nil
}

// presets are the presets of the providers' own APIs, by host. For another host the handler infers
// the upstream from requests.
var presets = map[string]string{
	"api.anthropic.com": `"upstream":{"preset":"anthropic"},`, "api.openai.com": `"upstream":{"preset":"openai"},`,
	"generativelanguage.googleapis.com": `"upstream":{"preset":"gemini"},`,
}

func config(upstream *url.URL, address string) []byte {
	transport, port := `{"protocol":"http"}`, "80"
	if upstream.Scheme == "https" {
		transport, port = `{"protocol":"http","tls":{}}`, "443"
	}
	dial := net.JoinHostPort(upstream.Hostname(), cmp.Or(upstream.Port(), port))
	return fmt.Appendf(nil,
		`{"admin":{"disabled":true,"config":{"persist":false}},"logging":{"logs":{"default":{"level":"ERROR"}}},
	"apps":{"http":{"servers":{"wrap":{"listen":[%q],"automatic_https":{"disable":true},"routes":[{"handle":[
		{%s"handler":"llm_cache"},
		{"handler":"reverse_proxy","upstreams":[{"dial":%q}],"headers":{"request":{"set":{"Host":[%q]}}},"transport":%s}]}]}}}}}`,
		address, presets[upstream.Hostname()], dial, upstream.Host, transport)
}
