// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

// Wrap starts a client with its requests routed through llm_cache.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/figure"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
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
client's. A Caddy of its own logs to wrap.log in Caddy's data directory, and is
followed by a line about what it has saved.
`,
		Example: "  caddy llm-cache wrap claude" + "\n" +
			"  caddy llm-cache wrap --url https://llm.example.com codex exec 'fix the test'",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			status, err := runWrapped(cmd, cmd.Flag("url").Value.String(), args)
			if err != nil || status == 0 {
				return err
			}
			cmd.SilenceErrors = true // the client has said why it failed
			if status == 1 {
				return errFailed
			}
			return caddycmd.WrapCommandFuncForCobra(func(caddycmd.Flags) (int, error) { return status, nil })(cmd, args)
		},
	}
	cmd.Flags().String("url", "",
		"Address of a running site with llm_cache, such as http://localhost:8080. Default: one of its own")
	cmd.Flags().SetInterspersed(false)
	return cmd
}

var errFailed = errors.New("wrap: the client has failed")

// runWrapped runs a client and returns its exit status.
func runWrapped(cmd *cobra.Command, site string, args []string) (int, error) {
	// The client may be given by its path, as with env and nice.
	program := strings.TrimSuffix(filepath.Base(args[0]), ".exe")
	i := slices.IndexFunc(clients, func(c client) bool { return c.name == program })
	if i < 0 {
		return 0, fmt.Errorf("wrap: client must be one of %s, got %q", strings.Join(names(), ", "), args[0])
	}
	c := clients[i]
	path, err := exec.LookPath(args[0])
	if err != nil {
		return 0, fmt.Errorf("wrap: %w", err)
	}
	l := &launch{args: slices.Clone(args[1:]), env: os.Environ(), managed: managedSettings()}
	if len(l.args) > 0 && l.args[0] == "--" {
		l.args = l.args[1:]
	}
	if l.home, err = os.UserHomeDir(); err != nil {
		return 0, fmt.Errorf("wrap: %w", err)
	}
	if l.dir, err = os.Getwd(); err != nil {
		return 0, fmt.Errorf("wrap: %w", err)
	}
	to, err := aim(cmd.Context(), c, l, site)
	if err != nil {
		return 0, err
	}
	c.set(l, to)
	l.bypassProxy(to.base)
	child := exec.CommandContext(cmd.Context(), path, l.args...)
	child.Env = l.env
	child.Stdin, child.Stdout, child.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	err = runChild(child)
	if site == "" {
		fmt.Fprintln(cmd.ErrOrStderr(), saved(app.Totals(shared.Process)))
		_ = caddy.Stop()
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return 128 + int(status.Signal()), nil // as shells have it
		}
		return exit.ExitCode(), nil
	}
	if err != nil {
		return 0, fmt.Errorf("wrap: %w", err)
	}
	return 0, nil
}

// runChild runs a client until it ends, and passes signals on to it.
func runChild(child *exec.Cmd) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := child.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	for {
		select {
		case s := <-signals:
			// The client has the terminal, which interrupts it, too.
			if s != os.Interrupt {
				_ = child.Process.Signal(s)
			}
		case err := <-ended:
			return err
		}
	}
}

// saved describes what the requests of a private instance have saved.
func saved(requests, failed int, c sessioncache.CostSummary) string {
	switch {
	case requests == 0 && failed == 1:
		return "llm_cache: the only request that came through has failed"
	case requests == 0 && failed > 0:
		return fmt.Sprintf("llm_cache: all %d requests that came through have failed", failed)
	case requests == 0:
		return "llm_cache: no request of the client came through. caddy llm-cache doctor looks for the reason."
	}
	in := "in 1 request"
	if requests > 1 {
		in = fmt.Sprintf("in %d requests", requests)
	}
	if c.ClientUnits <= 0 {
		return "llm_cache: " + in + " nothing was billed"
	}
	what, less := "saved", c.ClientUSD-c.USD
	share := 1 - c.Units/c.ClientUnits
	if share < 0 {
		what, share, less = "cost more:", -share, -less
	}
	if c.ClientUSD <= 0 {
		return fmt.Sprintf("llm_cache: %s %s %s", what, figure.Percent(share), in)
	}
	return fmt.Sprintf("llm_cache: %s %s (%s) %s", what, figure.Cents(less), figure.Percent(share), in)
}

// reachTime bounds the wait for a connection to a site.
const reachTime = 3 * time.Second

// aim returns the target of a client: the site, or a private instance, which it starts.
func aim(ctx context.Context, c client, l *launch, site string) (target, error) {
	if why := c.elsewhere(l, site != ""); why != "" {
		return target{}, fmt.Errorf("wrap: requests of %s would not go through llm_cache: %s", c.name, why)
	}
	if site != "" {
		u, err := parse(site)
		if err != nil {
			return target{}, fmt.Errorf("wrap: --url: %w", err)
		}
		ctx, cancel := context.WithTimeout(ctx, reachTime)
		defer cancel()
		// Clients repeat requests for minutes before they give up.
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address(u))
		if err != nil {
			return target{}, fmt.Errorf("wrap: --url: nothing answers at %s: %w", site, err)
		}
		_ = conn.Close()
		site = strings.TrimSuffix(strings.TrimSuffix(site, "/"), "/v1") // the client's own path follows
		return target{base: site + c.version, site: site}, nil
	}
	u, err := parse(cmp.Or(c.base(l), c.api))
	if err != nil {
		return target{}, fmt.Errorf("wrap: base URL of %s: %w", c.name, err)
	}
	listen, err := private(u)
	if err != nil {
		return target{}, err
	}
	// The path and a password stay. The client sends both.
	base := *u
	base.Scheme, base.Host = "http", listen
	api, _ := url.Parse(c.api)
	return target{base: strings.TrimSuffix(base.String(), "/"), official: u.Scheme == api.Scheme && u.Host == api.Host},
		nil
}

// address returns the host and port of a URL.
func address(u *url.URL) string {
	port := "80"
	if u.Scheme == "https" {
		port = "443"
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port))
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

func config(upstream *url.URL, listen string) []byte {
	transport := `{"protocol":"http"}`
	if upstream.Scheme == "https" {
		transport = `{"protocol":"http","tls":{}}`
	}
	return fmt.Appendf(nil,
		`{"admin":{"disabled":true,"config":{"persist":false}},"logging":{"logs":{"default":{"level":"WARN","writer":{"output":"file","filename":%q}}}},
	"apps":{"http":{"servers":{"wrap":{"listen":[%q],"automatic_https":{"disable":true},"routes":[{"handle":[
		{%s"handler":"llm_cache"},
		{"handler":"reverse_proxy","upstreams":[{"dial":%q}],"headers":{"request":{"set":{"Host":[%q]}}},"transport":%s}]}]}}}}}`,
		filepath.Join(option.DataDir(), "wrap.log"), listen, presets[upstream.Hostname()], address(upstream), upstream.Host,
		transport)
}
