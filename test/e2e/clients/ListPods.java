// SPDX-License-Identifier: Apache-2.0
// Loads a kubeconfig that kubeconfig-gen wrote and lists all pods with the JDK's HttpClient, on which
// Fabric8's client can be built; neither that one nor the official one is in a package here. As both do,
// it sends the user's token in a header, and asks for the server's URL as it stands. Prints the
// status, or the error, as JSON.
//
//   java ListPods KUBECONFIG

import java.io.ByteArrayInputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.Base64;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

public class ListPods {
    private static String field(String text, String name) {
        Matcher m = Pattern.compile("(?m)^ +" + name + ": \"?([^\"\\n]+)").matcher(text);
        return m.find() ? m.group(1) : null;
    }

    private static SSLContext trust(String data) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        CertificateFactory factory = CertificateFactory.getInstance("X.509");
        byte[] pem = Base64.getDecoder().decode(data);
        store.setCertificateEntry("ca", factory.generateCertificate(new ByteArrayInputStream(pem)));
        TrustManagerFactory managers =
            TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        managers.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, managers.getTrustManagers(), null);
        return context;
    }

    public static void main(String[] args) throws Exception {
        String text = Files.readString(Path.of(args[0]));
        String token = field(text, "token");
        String authority = field(text, "certificate-authority-data");
        HttpClient.Builder builder = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(20));
        if (authority != null) {
            builder.sslContext(trust(authority));
        }
        HttpRequest.Builder request =
            HttpRequest.newBuilder(URI.create(field(text, "server") + "/api/v1/pods"));
        if (token != null) {
            request.header("Authorization", "Bearer " + token);
        }
        HttpResponse<String> answer =
            builder.build().send(request.build(), HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() != 200) {
            System.err.println("status " + answer.statusCode());
            System.exit(1);
        }
        System.out.printf("{\"status\": %d}%n", answer.statusCode());
    }
}
