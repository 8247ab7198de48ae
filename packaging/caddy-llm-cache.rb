# A formula for a tap of your own: brew install <you>/tap/caddy-llm-cache
# VERSION and SHA256 are those of the release's source archive.
class CaddyLlmCache < Formula
  desc "Caddy with llm_cache, which makes long conversations with language models cheap"
  homepage "https://github.com/caddy-llm-cache/caddy-llm-cache"
  url "https://github.com/caddy-llm-cache/caddy-llm-cache/archive/refs/tags/vVERSION.tar.gz"
  sha256 "SHA256"
  license "Apache-2.0"

  depends_on "go" => :build

  conflicts_with "caddy", because: "both install a caddy binary"

  def install
    ENV["CGO_ENABLED"] = "0"
    system "packaging/module", "v#{version}"
    cd "build" do
      system "go", "build", *std_go_args(ldflags: "-s -w", output: bin/"caddy")
    end
    (etc/"llm-cache").install "packaging/Caddyfile"
  end

  service do
    run [opt_bin/"caddy", "run", "--config", etc/"llm-cache/Caddyfile"]
    keep_alive true
    error_log_path var/"log/caddy.log"
    environment_variables XDG_DATA_HOME: var/"lib", HOME: var/"lib"
  end

  test do
    assert_match "http.handlers.llm_cache v#{version}", shell_output("#{bin}/caddy list-modules --versions")
  end
end
