public class Hello {
    static class Inner {}
    public static void main(String[] args) {
        new Inner();
        System.out.println("java " + args[0] + " " + Runtime.getRuntime().availableProcessors());
    }
}
